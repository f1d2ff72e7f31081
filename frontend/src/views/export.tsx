/** Exports what is listed or chosen: a training format, or a report that anybody can open. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { download } from "../api";
import { plural } from "../format";
import { Dialog } from "../parts/dialog";
import { attempt, useSession } from "../session";

const FORMATS = ["trl", "openai", "sharegpt", "raw"] as const;
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
            {FORMATS.map((each) => (
              <option value={each}>{each}</option>
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

const REPEATED = new Set(["dataset", "status", "stop_reason", "mark", "label", "tool", "model", "author", "filter", "score"]);

/** The query as JSON: names that may be repeated are lists. */
export function queryObject(query: URLSearchParams): Record<string, string | string[]> {
  const result: Record<string, string | string[]> = {};
  for (const name of new Set(query.keys())) result[name] = REPEATED.has(name) ? query.getAll(name) : (query.get(name) ?? "");
  return result;
}
