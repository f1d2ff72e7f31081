/** Two or more runs over the same tasks: who solved what, which tasks changed, and where two attempts part. */

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { useAnswer, useTitle } from "../answers";
import { count, money, percent, plural, reward } from "../format";
import { useKeys } from "../keys";
import { Empty, Loading, Problem } from "../parts/notice";
import { Progress } from "../parts/progress";
import { go, href, makeQuery, runPath, trajectoryPath } from "../router";
import type { Attempts, Flip, RunDiff, RunRow } from "../types";

export function CompareView({ query }: { query: URLSearchParams }): VNode {
  useTitle("Compare runs");
  const names = query.getAll("run");
  const runs = useAnswer<RunRow[]>(["runs"]);
  const first = names[0] ?? "";
  const others = names.slice(1);
  const second = others.includes(query.get("with") ?? "") ? (query.get("with") ?? "") : (others[0] ?? "");
  const diff = useAnswer<RunDiff>(first && second ? ["diff"] : null, makeQuery({ first, second }));
  const rows = names.flatMap((name) => runs.data?.find((row) => row.name === name) ?? []);
  const base = (name: string) => href(["compare"], { run: [name, ...names.filter((each) => each !== name)] });
  if (names.length < 2) return <Empty>Choose two or more runs in the list of runs.</Empty>;
  return (
    <main class="compare">
      <header class="view-head">
        <h1>{plural(names.length, "run")} compared</h1>
      </header>
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Figures of the runs">
        <table class="plain compare-runs">
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col">Model</th>
              <th scope="col">Progress</th>
              {["Solved", "Mean reward", "Failed", "Cost"].map((title) => (
                <th scope="col" class="is-number">
                  {title}
                </th>
              ))}
              <th scope="col">Role</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr class={row.name === second ? "is-chosen" : ""}>
                <td>
                  <a href={href(runPath(row.name))}>{row.title || row.name}</a>
                </td>
                <td class="mono">{row.model ?? "–"}</td>
                <td class="run-progress">
                  <Progress row={row} />
                </td>
                <td class="is-number">
                  {percent(row.solved, row.scored)} <small>{`${count(row.solved)}/${count(row.scored)}`}</small>
                </td>
                <td class="is-number">{reward(row.mean_reward)}</td>
                <td class="is-number">{count(row.failed)}</td>
                <td class="is-number">{money(row.cost)}</td>
                <td>
                  {row.name === first ? (
                    <b>base</b>
                  ) : (
                    <>
                      {row.name === second ? <b>against the base</b> : <a href={href(["compare"], { run: names, with: row.name })}>against the base</a>} · <a href={base(row.name)}>make it the base</a>
                    </>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {others.length > 1 && <Matrix first={first} others={others} />}
      {diff.error && <Problem error={diff.error} retry={diff.reload} />}
      {!diff.data && !diff.error && <Loading what="the comparison" />}
      {diff.data && <Diff diff={diff.data} first={first} second={second} />}
    </main>
  );
}

const MOST_ROWS = 200;

/** Which run solved what, for the tasks that not all solve equally often. Runs are compared with the base in pairs. */
function Matrix({ first, others }: { first: string; others: string[] }): VNode | null {
  const [diffs, setDiffs] = useState<RunDiff[] | null>(null);
  useEffect(() => {
    let isGone = false;
    void Promise.all(others.map((second) => get<RunDiff>(["diff"], makeQuery({ first, second })))).then(
      (found) => !isGone && setDiffs(found),
      () => undefined, // the comparison below says what is wrong
    );
    return () => {
      isGone = true;
    };
  }, [first, others.join("\n")]);
  if (!diffs || diffs.length !== others.length) return null;
  const tasks = new Map<string, { flip: Flip; cells: (Flip | undefined)[] }>();
  diffs.forEach((diff, place) => {
    for (const flip of diff.flips) {
      const key = `${flip.dataset}\n${flip.task_id}`;
      const row = tasks.get(key) ?? { flip, cells: [] };
      row.cells[place] = flip;
      tasks.set(key, row);
    }
  });
  const rows = [...tasks.values()].slice(0, MOST_ROWS);
  const keys = (found: [string, string][]) => new Set(found.map((task) => task.join("\n")));
  const uncompared = diffs.map((diff) => ({ missing: keys(diff.only_first), unscored: keys(diff.unscored) }));
  const unchanged = (flip: Flip, place: number) => {
    const key = `${flip.dataset}\n${flip.task_id}`;
    return uncompared[place]?.missing.has(key) ? "not attempted" : uncompared[place]?.unscored.has(key) ? "not scored" : "same";
  };
  if (!rows.length) return null;
  return (
    <details class="matrix" open>
      <summary>
        Who solved what <small>{plural(tasks.size, "task")} that differ</small>
      </summary>
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Who solved what">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Task</th>
              {[first, ...others].map((name) => (
                <th scope="col" class="is-number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ flip, cells }) => (
              <tr>
                <th scope="row">
                  {flip.task_id} <small>{flip.dataset}</small>
                </th>
                <MatrixCell run={first} flip={flip} attempts={flip.first} />
                {others.map((name, place) => {
                  const found = cells[place];
                  return found ? <MatrixCell run={name} flip={flip} attempts={found.second} change={found.change} /> : <td class="is-number hint">{unchanged(flip, place)}</td>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function MatrixCell({ run, flip, attempts, change }: { run: string; flip: Flip; attempts: Attempts; change?: Flip["change"] }): VNode {
  return (
    <td class="is-number">
      {change && (
        <span class={change === "gained" ? "good" : "bad"} title={change}>
          {change === "gained" ? "▲ " : "▼ "}
        </span>
      )}
      <a href={href(runPath(run), { task: flip.task_id })}>{percent(attempts.solved, attempts.scored)}</a> <small>{`${count(attempts.solved)}/${count(attempts.scored)}`}</small>
    </td>
  );
}

function Diff({ diff, first, second }: { diff: RunDiff; first: string; second: string }): VNode {
  const [only, setOnly] = useState<"all" | "gained" | "lost">("all");
  const flips = diff.flips.filter((flip) => only === "all" || flip.change === only);
  const [place, setPlace] = useState(-1);
  const move = (by: number) => {
    const next = Math.max(0, Math.min(flips.length - 1, place + by));
    setPlace(next);
    document.querySelectorAll<HTMLElement>(".flip")[next]?.scrollIntoView({ block: "nearest" });
  };
  useKeys("Comparison", [
    { key: "j", words: "Next task", act: () => move(1) },
    { key: "k", words: "Previous task", act: () => move(-1) },
    {
      key: "Enter",
      words: "Open the second run's attempt",
      act: () => {
        const flip = flips[place];
        if (flip?.parting) go(href(trajectoryPath(second, { dataset: flip.second_dataset, id: flip.parting.second_id }), { step: flip.parting.step }));
      },
    },
  ]);
  const alike = diff.compared - diff.gained - diff.lost;
  return (
    <>
      <section class="counters" aria-label="Figures of the comparison">
        <Figure title="Tasks in both" value={count(diff.shared)} />
        <Figure title={`Solved: ${first}`} value={percent(diff.first.solved, diff.first.scored)} />
        <Figure title={`Solved: ${second}`} value={percent(diff.second.solved, diff.second.scored)} />
        <Figure title="Gained" value={count(diff.gained)} kind="good" />
        <Figure title="Lost" value={count(diff.lost)} kind="bad" />
        <Figure title="Same" value={count(diff.same)} />
      </section>
      <FlipBar gained={diff.gained} lost={diff.lost} same={alike} />
      <div class="table-tools">
        <div class="chips" role="group" aria-label="Which tasks">
          {(["all", "gained", "lost"] as const).map((each) => (
            <button type="button" class="chip" aria-pressed={only === each} onClick={() => setOnly(each)}>
              {each} <small>{count(each === "all" ? diff.flips.length : diff[each])}</small>
            </button>
          ))}
        </div>
        <span class="hint">
          Gained: solved more often in {second} than in {first}. Lost: less often.
        </span>
      </div>
      {!flips.length && <Empty>Every task that both have attempted is solved equally often.</Empty>}
      <ul class="flips">
        {flips.map((flip, each) => (
          <FlipRow flip={flip} first={first} second={second} isCurrent={each === place} />
        ))}
      </ul>
      <OnlyIn title={`Only in ${first}`} run={first} tasks={diff.only_first} />
      <OnlyIn title={`Only in ${second}`} run={second} tasks={diff.only_second} />
    </>
  );
}

function Figure({ title, value, kind }: { title: string; value: string; kind?: "good" | "bad" }): VNode {
  return (
    <div class="counter">
      <span class="counter-title">{title}</span>
      <span class={`counter-value ${kind ?? ""}`}>{value}</span>
    </div>
  );
}

function FlipBar({ gained, lost, same }: { gained: number; lost: number; same: number }): VNode {
  const whole = Math.max(1, gained + lost + same);
  const text = `${count(lost)} lost, ${count(same)} the same, ${count(gained)} gained`;
  return (
    <svg class="progress is-tall" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={text}>
      <title>{text}</title>
      <rect class="progress-rest" width="100" height="6" />
      <rect class="fill-failed" width={(100 * lost) / whole} height="6" />
      <rect class="fill-solved" x={100 - (100 * gained) / whole} width={(100 * gained) / whole} height="6" />
    </svg>
  );
}

function attemptsWords(attempts: Attempts): string {
  return `${count(attempts.solved)} of ${count(attempts.scored)}`;
}

function FlipRow({ flip, first, second, isCurrent }: { flip: Flip; first: string; second: string; isCurrent: boolean }): VNode {
  const { parting } = flip;
  const list = (run: string) => href(runPath(run), { task: flip.task_id });
  return (
    <li class={`flip is-${flip.change}${isCurrent ? " is-current" : ""}`}>
      <div class="flip-head">
        <b class={flip.change === "gained" ? "good" : "bad"}>
          <span aria-hidden="true">{flip.change === "gained" ? "▲" : "▼"}</span> {flip.change}
        </b>
        <span class="trajectory-id">{flip.task_id}</span>
        <small>{flip.dataset}</small>
        <span class="number">
          <a href={list(first)}>{attemptsWords(flip.first)}</a> → <a href={list(second)}>{attemptsWords(flip.second)}</a>
        </span>
      </div>
      {parting && (
        <div class="flip-sides">
          <p class="hint">They part at step {parting.step}:</p>
          <a href={href(trajectoryPath(first, { dataset: flip.dataset, id: parting.first_id }), { step: parting.step })}>
            <small>{first}</small>
            <span class="mono">{parting.first}</span>
          </a>
          <a href={href(trajectoryPath(second, { dataset: flip.second_dataset, id: parting.second_id }), { step: parting.step })}>
            <small>{second}</small>
            <span class="mono">{parting.second}</span>
          </a>
        </div>
      )}
    </li>
  );
}

function OnlyIn({ title, run, tasks }: { title: string; run: string; tasks: [string, string][] }): VNode | null {
  if (!tasks.length) return null;
  return (
    <details class="only-in">
      <summary>
        {title} <small>{plural(tasks.length, "task")}</small>
      </summary>
      <ul>
        {tasks.slice(0, 500).map(([dataset, task]) => (
          <li>
            <a href={href(runPath(run), { task, dataset })}>{task}</a> <small>{dataset}</small>
          </li>
        ))}
      </ul>
    </details>
  );
}
