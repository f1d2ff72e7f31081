/** The runs that the server was given. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { useAnswer, useThrottled, useTitle } from "../answers";
import { count, money, plural, reward, when, wholeDate } from "../format";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { Empty, Loading, Problem } from "../parts/notice";
import { Progress, Solved } from "../parts/progress";
import { go, href, runPath } from "../router";
import type { RunRow } from "../types";

export function RunsView(): VNode {
  useTitle("Runs");
  const answer = useAnswer<RunRow[]>(["runs"]);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [current, setCurrent] = useState(-1);
  const reload = useThrottled(answer.reload, 1000);
  useLive("", reload);
  const runs = answer.data ?? [];
  const choose = (name: string) => setChosen((before) => (before.includes(name) ? before.filter((each) => each !== name) : [...before, name]));
  const move = (by: number) => {
    const next = Math.max(0, Math.min(runs.length - 1, current + by));
    setCurrent(next);
    document.querySelectorAll<HTMLElement>(".runs .run-name")[next]?.focus();
  };
  const compare = () => {
    if (chosen.length >= 2) go(href(["compare"], { run: chosen }));
  };
  useKeys("Runs", [
    { key: "j", words: "Next run", act: () => move(1) },
    { key: "k", words: "Previous run", act: () => move(-1) },
    { key: "x", words: "Choose the run for a comparison", act: () => runs[current] && choose(runs[current].name) },
    { key: "c", words: "Compare the chosen runs", act: compare },
  ]);
  if (answer.error && !answer.data) return <Problem error={answer.error} retry={answer.reload} />;
  if (!answer.data) return <Loading what="runs" />;
  if (!runs.length) {
    return (
      <Empty>
        <p>No runs yet.</p>
        <p>
          Make one with <code>rollout run configs/default.yml</code>, then open it with <code>rollout view runs/default</code>.
        </p>
      </Empty>
    );
  }
  return (
    <main class="runs">
      <header class="view-head">
        <h1>{plural(runs.length, "run")}</h1>
        <div class="actions">
          <span class="hint" role="status">
            {chosen.length === 0 ? "Choose two or more runs to compare them." : plural(chosen.length, "run") + " chosen"}
          </span>
          <button type="button" class="primary" disabled={chosen.length < 2} onClick={compare}>
            Compare
          </button>
        </div>
      </header>
      <div class="runs-frame">
        <table class="runs-table">
          <thead>
            <tr>
              <th scope="col">
                <span class="unseen">Compare</span>
              </th>
              <th scope="col">Run</th>
              <th scope="col">Model</th>
              <th scope="col">Progress</th>
              <th scope="col" class="is-number">Solved</th>
              <th scope="col" class="is-number">Mean reward</th>
              <th scope="col" class="is-number">Cost</th>
              <th scope="col" class="is-number">Updated</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((row) => (
              <RunLine row={row} isChosen={chosen.includes(row.name)} onChoose={() => choose(row.name)} />
            ))}
          </tbody>
        </table>
      </div>
    </main>
  );
}

function RunLine({ row, isChosen, onChoose }: { row: RunRow; isChosen: boolean; onChoose: () => void }): VNode {
  return (
    <tr class={isChosen ? "is-chosen" : ""}>
      <td class="run-choose">
        <input type="checkbox" aria-label={`Choose ${row.name} for a comparison`} checked={isChosen} disabled={!!row.problem} onChange={onChoose} />
      </td>
      <td class="run-title">
        <a class="run-name" href={href(runPath(row.name))}>
          {row.title || row.name}
        </a>
        {row.is_live && <span class="tag is-live">running</span>}
        <small title={row.path}>{row.problem ? <span class="bad">{row.problem}</span> : row.datasets.length > 3 ? plural(row.datasets.length, "dataset") : row.datasets.join(", ")}</small>
      </td>
      <td data-title="Model">
        <span class="mono">{row.model ?? "–"}</span>
        {row.user_model && <small>user: {row.user_model}</small>}
      </td>
      <td class="run-progress">
        <Progress row={row} />
        <small>
          {count(row.finished)}
          {row.planned !== null && ` of ${count(row.planned)}`}
          {row.failed > 0 && <span class="bad"> · {count(row.failed)} failed</span>}
        </small>
      </td>
      <td class="is-number" data-title="Solved">
        <Solved solved={row.solved} scored={row.scored} />
      </td>
      <td class="is-number" data-title="Mean reward">
        {reward(row.mean_reward)}
      </td>
      <td class="is-number" data-title="Cost">
        {money(row.cost)}
      </td>
      <td class="is-number" data-title="Updated" title={`Started ${wholeDate(row.started)}`}>
        {when(row.updated ?? row.started)}
      </td>
    </tr>
  );
}
