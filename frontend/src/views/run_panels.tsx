/** Causes of failure, growths and settings of a run. */

import type { VNode } from "preact";
import { post } from "../api";
import { count, plural, when, words } from "../format";
import { JsonView } from "../parts/json";
import { Empty } from "../parts/notice";
import { Outcome } from "../parts/outcome";
import { href, makeQuery, runPath, trajectoryPath } from "../router";
import { attempt, useSession } from "../session";
import type { Growth, RunPage } from "../types";

export function ErrorsPanel({ page, run }: { page: RunPage; run: string }): VNode {
  const errors = (page.total?.tools ?? []).filter((tool) => tool.errors > 0).sort((one, two) => two.errors - one.errors);
  if (!page.causes.length && !errors.length) return <Empty>No attempt failed, and no tool call was answered with an error.</Empty>;
  return (
    <div class="panel">
      {page.causes.length > 0 && (
        <section>
          <h2>Why attempts failed</h2>
          <ul class="causes">
            {page.causes.map((cause) => (
              <li>
                <a class="cause-count" href={href(runPath(run), makeQuery({ cause: cause.key ?? cause.text }))}>
                  {plural(cause.count, "attempt")}
                </a>
                <div>
                  <p class="mono">{cause.text}</p>
                  {cause.hint && <p class="hint">{cause.hint}</p>}
                </div>
              </li>
            ))}
          </ul>
        </section>
      )}
      {errors.length > 0 && (
        <section>
          <h2>Tools that answered with errors</h2>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Tool</th>
                <th scope="col" class="is-number">Calls</th>
                <th scope="col" class="is-number">Errors</th>
              </tr>
            </thead>
            <tbody>
              {errors.map((tool) => (
                <tr>
                  <td>
                    <a class="mono" href={href(runPath(run), makeQuery({ tool: tool.name }))}>
                      {tool.name}
                    </a>
                  </td>
                  <td class="is-number">{count(tool.calls)}</td>
                  <td class="is-number">
                    <a href={href(runPath(run), makeQuery({ tool_error: tool.name }))} aria-label={`${plural(tool.errors, "error")} of ${tool.name}`}>
                      {count(tool.errors)}
                    </a>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </div>
  );
}

export function ConfigPanel({ page }: { page: RunPage }): VNode {
  return (
    <div class="panel">
      <p class="hint mono">{page.row.path}</p>
      <JsonView value={page.config} />
    </div>
  );
}

export function GrowthsPanel({ run, growths, onChange }: { run: string; growths: Growth[]; onChange: () => void }): VNode {
  if (!growths.length) return <Empty>Nothing has been grown on yet.</Empty>;
  return (
    <div class="panel">
      {growths.map((growth) => (
        <GrowthStatus key={growth.number} run={run} growth={growth} onChange={onChange} />
      ))}
    </div>
  );
}

/** One request to continue an attempt, and how far it came. */
export function GrowthStatus({ run, growth, onChange }: { run: string; growth: Growth; onChange: () => void }): VNode {
  const session = useSession();
  const act = async (what: "stop" | "resume") => {
    if (await attempt(session, () => post(["runs", run, "growths", growth.number, what], {}))) onChange();
  };
  const isOpen = growth.state === "waiting" || growth.state === "running";
  return (
    <section class="growth" aria-label={`Growth ${growth.number}`}>
      <header>
        <b>
          {growth.role === null ? (
            plural(growth.n, "continuation")
          ) : (
            <a href={href(["run", run, "play", growth.number])}>A conversation with a person as the {growth.role}</a>
          )}
          {growth.id === null ? ` at ${growth.task_id}` : " of "}
          {growth.id !== null && <a href={href(trajectoryPath(run, { dataset: growth.dataset, id: growth.id }), { at: growth.message })}>{growth.id}</a>}
        </b>
        <span class={`tag is-${growth.state}`}>{growth.state === "waiting" ? "interrupted" : growth.state}</span>
        <small>{[growth.model, growth.temperature !== null && `temperature ${growth.temperature}`, growth.author, when(growth.at)].filter(Boolean).join(" · ")}</small>
        {session.canWrite && isOpen && (
          <button type="button" onClick={() => void act("stop")}>
            Stop
          </button>
        )}
        {session.canWrite && growth.state !== "running" && growth.state !== "done" && (
          <button type="button" onClick={() => void act("resume")}>
            Resume
          </button>
        )}
      </header>
      {growth.error && <p class="bad">{growth.error}</p>}
      <ul>
        {growth.attempts.map((each) => (
          <li>
            <a href={href(trajectoryPath(run, { dataset: growth.dataset, id: each.id }))}>{each.id}</a> {each.status ? <Outcome success={each.success} status={each.status} scored={each.success !== null} /> : <span class="hint">{growth.state === "running" ? words(each.state) : "unfinished"}</span>}
            {each.messages !== null && <small> {plural(each.messages, "message")}</small>}
          </li>
        ))}
      </ul>
    </section>
  );
}
