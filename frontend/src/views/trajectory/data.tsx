/** The database before and after, and what each step changed in it: found by a replay that a person asks for. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { post } from "../../api";
import { isObject, JsonView } from "../../parts/json";
import { Empty, Loading, Problem } from "../../parts/notice";
import { useSession } from "../../session";
import type { Change, Json, States, TrajectoryPage } from "../../types";

interface Properties {
  run: string;
  page: TrajectoryPage;
  linkTo: (message: number) => string;
}

/** What was asked for since the page was opened, so that coming back to the panel makes no call again. */
const known = new Map<string, States>();

function replay(run: string, { dataset, id }: TrajectoryPage): Promise<States> {
  return post<States>(["runs", run, "states"], { dataset, id });
}

export function DataPanel({ run, page, linkTo }: Properties): VNode {
  const session = useSession();
  const key = JSON.stringify([run, page.dataset, page.id]);
  const [states, setStates] = useState(known.get(key) ?? null);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const ask = async () => {
    setError(null);
    setBusy(true);
    try {
      const found = await replay(run, page);
      known.set(key, found);
      setStates(found);
    } catch (problem) {
      setError(problem as Error);
    }
    setBusy(false);
  };
  if (error) return <Problem error={error} retry={() => void ask()} />;
  if (isBusy) return <Loading what="the data: the calls are made again" />;
  if (states) return <Shown states={states} page={page} linkTo={linkTo} />;
  if (!session.canWrite) return <Empty>This server only reads. Start rollout view without --read-only to replay the calls.</Empty>;
  return (
    <div class="notice is-offer">
      <p>A replay makes the recorded calls again in a fresh world: it runs the code of the environment, asks no model, and ends before an irreversible call.</p>
      <button type="button" class="primary" onClick={() => void ask()}>
        Replay the calls to see the data
      </button>
    </div>
  );
}

function Shown({ states, page, linkTo }: { states: States; page: TrajectoryPage; linkTo: (message: number) => string }): VNode {
  const { before, after, changes, note } = states;
  const steps = changes.filter((each) => each.changes.length > 0);
  const isLookedAt = before !== null && after !== null;
  return (
    <div class="panel">
      {note && <Empty>{note}</Empty>}
      {isLookedAt && !steps.length && !hasRows(before) && !hasRows(after) && <Empty>{note ? "The database did not change up to there." : "The database did not change."}</Empty>}
      {steps.length > 0 && (
        <section>
          <h2>What each step changed</h2>
          {steps.map((each) => (
            <StepChanges message={each.message} changes={each.changes} page={page} linkTo={linkTo} />
          ))}
        </section>
      )}
      {isLookedAt && (hasRows(before) || hasRows(after)) && (
        <section>
          <h2>Before and after</h2>
          <p class="hint">Only rows that differ at the end. All others stayed as they were.</p>
          <div class="before-after">
            <Rows title="Before" value={before} empty="None of these rows existed." />
            <Rows title="After" value={after} empty="None of these rows is left." />
          </div>
        </section>
      )}
    </div>
  );
}

function hasRows(tables: Json): boolean {
  return isObject(tables) && Object.keys(tables).length > 0;
}

function StepChanges({ message, changes, page, linkTo }: { message: number; changes: Change[]; page: TrajectoryPage; linkTo: (message: number) => string }): VNode {
  const step = page.messages.findLast((each) => each.index <= message && each.speaker === "agent");
  return (
    <div class="changes">
      <h3>
        <a href={linkTo(step?.index ?? message)}>{step?.step !== null && step ? `Step ${step.step}` : `Message ${message}`}</a> <small class="mono">{step?.calls.map((call) => call.name).join(", ")}</small>
      </h3>
      <div class="scroll-x" tabIndex={0} role="group" aria-label={`Changes of step ${step?.step ?? message}`}>
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Where</th>
              <th scope="col">Before</th>
              <th scope="col">After</th>
            </tr>
          </thead>
          <tbody>
            {changes.map((change) => (
              <tr>
                <th scope="row" class="mono">
                  {change.path.join(" › ")}
                </th>
                <td class="is-before">
                  <Cell value={change.before} isMissing={change.before === null} words="was not there" />
                </td>
                <td class="is-after">
                  <Cell value={change.after} isMissing={change.after === null} words="is gone" />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function Cell({ value, isMissing, words }: { value: Json; isMissing: boolean; words: string }): VNode {
  return isMissing ? <span class="hint">{words}</span> : <JsonView value={value} />;
}

function Rows({ title, value, empty }: { title: string; value: Json; empty: string }): VNode {
  return (
    <details open>
      <summary>{title}</summary>
      {hasRows(value) ? <JsonView value={value} /> : <p class="hint">{empty}</p>}
    </details>
  );
}
