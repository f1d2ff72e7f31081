/** Exports what is listed or chosen: a training format, or a report that anybody can open. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { download } from "../api";
import { plural } from "../format";
import { Dialog } from "../parts/dialog";
import { attempt, useSession } from "../session";

const FORMATS: Record<string, string> = {
  jsonl: "JSON lines, as the run saved them",
  trl: "TRL: messages and tools",
  openai: "OpenAI chat",
  sharegpt: "ShareGPT",
  parquet: "Parquet",
};
const REPORT = "report";

interface Properties {
  run: string;
  query: URLSearchParams;
  chosen: ReadonlySet<string>;
  onClose: () => void;
}

export function ExportDialog({ run, query, chosen, onClose }: Properties): VNode {
  const session = useSession();
  const [format, setFormat] = useState<string>(REPORT);
  const [isBusy, setBusy] = useState(false);
  const keys = chosen.size ? [...chosen].map((key) => ({ dataset: key.split("\n")[0], id: key.split("\n")[1] })) : null;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const isReport = format === REPORT;
    const isDone = await attempt(session, () => download(["runs", run, isReport ? "report" : "export"], { ...(isReport ? {} : { format }), ...queryObject(query), keys }, isReport ? `${run}.html` : `${run}.jsonl`));
    setBusy(false);
    if (isDone) onClose();
  };
  return (
    <Dialog title="Export" onClose={onClose}>
      <form class="form" onSubmit={(event) => void submit(event)}>
        <p class="hint">{keys ? `${plural(keys.length, "chosen trajectory", "chosen trajectories")}.` : "Everything that the table lists, with its filters and search."}</p>
        <label class="field">
          As
          <select value={format} onChange={(event) => setFormat(event.currentTarget.value)}>
            <option value={REPORT}>Report: one HTML file, opens without a server</option>
            {Object.entries(FORMATS).map(([name, words]) => (
              <option value={name}>{words}</option>
            ))}
          </select>
        </label>
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            {isBusy ? "Making the file…" : "Export"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

const REPEATED = new Set(["dataset", "status", "stop_reason", "mark", "label", "tool", "tool_error", "model", "author", "filter", "score"]);

/** The query as JSON: names that may be repeated are lists. */
export function queryObject(query: URLSearchParams): Record<string, string | string[] | number | boolean> {
  const result: Record<string, string | string[] | number | boolean> = {};
  for (const name of new Set(query.keys())) {
    const value = query.get(name) ?? "";
    if (REPEATED.has(name)) result[name] = query.getAll(name);
    else if (name === "desc") result[name] = value !== "0";
    else result[name] = name.endsWith("_reward") ? Number(value) : value;
  }
  return result;
}
