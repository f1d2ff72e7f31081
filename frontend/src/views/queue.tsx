/** The review queue: trajectories that somebody should look at, one after the other. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { useAnswer, useTitle } from "../answers";
import { plural } from "../format";
import { Empty, Loading, Problem } from "../parts/notice";
import { changed, go, href, listQuery, trajectoryPath } from "../router";
import type { Queue } from "../types";
import { TrajectoryView } from "./trajectory/view";

const KINDS = {
  sample: "A random sample",
  disagree: "Where scorers disagree",
  unmarked: "Without a mark",
} as const;

export function QueueView({ run, query }: { run: string; query: URLSearchParams }): VNode {
  useTitle("Review");
  const kind = query.get("kind") ?? "sample";
  const n = query.get("n") ?? "50";
  const asking = listQuery(query);
  asking.set("kind", kind);
  asking.set("n", n);
  const answer = useAnswer<Queue>(["runs", run, "queue"], asking);
  const path = ["run", run, "queue"];
  const keys = answer.data?.keys ?? [];
  const place = Math.max(0, Math.min(keys.length - 1, Number(query.get("place") ?? 0)));
  const move = (by: number) => {
    const next = place + by;
    if (next >= 0 && next < keys.length) go(href(path, changed(query, { place: next, at: null, panel: null })));
  };
  const current = keys[place];
  return (
    <div class="queue">
      <header class="queue-head">
        <label class="is-inline">
          Review{" "}
          <select value={kind} onChange={(event) => go(href(path, changed(query, { kind: event.currentTarget.value, place: null, at: null })))}>
            {Object.entries(KINDS).map(([name, text]) => (
              <option value={name}>{text}</option>
            ))}
          </select>
        </label>
        <Size n={n} onChange={(next) => go(href(path, changed(query, { n: next, place: null })))} />
        {current && (
          <span class="neighbours">
            <button type="button" aria-label="Previous in the queue (p)" disabled={place === 0} onClick={() => move(-1)}>
              ‹
            </button>
            <span class="number">
              {place + 1} <small>of {keys.length}</small>
            </span>
            <button type="button" aria-label="Next in the queue (n)" disabled={place === keys.length - 1} onClick={() => move(1)}>
              ›
            </button>
          </span>
        )}
        {current?.why && <span class="queue-why">{current.why}</span>}
        {current && <a href={href(trajectoryPath(run, current))}>Open by itself</a>}
      </header>
      {answer.error && <Problem error={answer.error} retry={answer.reload} />}
      {!answer.data && !answer.error && <Loading what="the queue" />}
      {answer.data && !keys.length && <Empty>The queue is empty: {plural(0, "trajectory", "trajectories")} of this kind.</Empty>}
      {current && <TrajectoryView run={run} dataset={current.dataset} id={current.id} query={query} walk={{ path, move }} />}
    </div>
  );
}

function Size({ n, onChange }: { n: string; onChange: (n: string) => void }): VNode {
  const [text, setText] = useState(n);
  return (
    <label class="is-inline">
      Size <input class="is-small" type="number" min="1" max="1000" value={text} onInput={(event) => setText(event.currentTarget.value)} onChange={() => Number(text) > 0 && onChange(text)} />
    </label>
  );
}
