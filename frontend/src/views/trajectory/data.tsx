/** The database before and after, and what each step changed in it. */

import type { VNode } from "preact";
import { useAnswer } from "../../answers";
import { JsonView } from "../../parts/json";
import { Empty, Loading, Problem } from "../../parts/notice";
import type { Change, Json, States, TrajectoryPage } from "../../types";

interface Properties {
  run: string;
  page: TrajectoryPage;
  linkTo: (message: number) => string;
}

export function DataPanel({ run, page, linkTo }: Properties): VNode {
  const answer = useAnswer<States>(["runs", run, "states"], new URLSearchParams({ dataset: page.dataset, id: page.id }));
  if (answer.error) return <Problem error={answer.error} retry={answer.reload} />;
  if (!answer.data) return <Loading what="the data, by replay on a fresh world" />;
  const { before, after, changes, note } = answer.data;
  const steps = changes.filter((each) => each.changes.length > 0);
  return (
    <div class="panel">
      {note && <Empty>{note}</Empty>}
      {!note && !steps.length && <Empty>No step changed the data.</Empty>}
      {steps.length > 0 && (
        <section>
          <h2>What each step changed</h2>
          {steps.map((each) => (
            <StepChanges message={each.message} changes={each.changes} page={page} linkTo={linkTo} />
          ))}
        </section>
      )}
      {(before !== null || after !== null) && (
        <section class="before-after">
          <Whole title="Before" value={before} />
          <Whole title="After (rows that differ)" value={after} />
        </section>
      )}
    </div>
  );
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

function Whole({ title, value }: { title: string; value: Json }): VNode {
  return (
    <details>
      <summary>{title}</summary>
      {value === null ? <p class="hint">unknown</p> : <JsonView value={value} />}
    </details>
  );
}
