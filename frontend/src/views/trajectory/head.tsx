/** The head of a trajectory: how it came out, by whose judgement, and what it took. */

import type { VNode } from "preact";
import { saveFile, author } from "../../api";
import { attemptName, count, duration, money, plural, reward, short, wholeDate, words } from "../../format";
import { copy } from "../../parts/copy";
import { isObject, JsonView } from "../../parts/json";
import { Menu } from "../../parts/menu";
import { Outcome, OUTCOME_SIGNS, outcomeOf } from "../../parts/outcome";
import { report } from "../../report";
import { changed, href, listQuery, trajectoryPath, treePath } from "../../router";
import { useSession } from "../../session";
import type { Json, Key, Neighbours, Score, TrajectoryPage } from "../../types";
import { MarkList } from "./marks";
import type { StepActions } from "./step";

interface Properties {
  run: string;
  page: TrajectoryPage;
  query: URLSearchParams;
  neighbours: Neighbours | null;
  actions: StepActions;
  onNeighbour: (to: Key | null | undefined, words: string) => void;
}

export function Head({ run, page, query, neighbours, actions, onNeighbour }: Properties): VNode {
  const session = useSession();
  const tokens = Object.values(page.usage).reduce((sum, each) => sum + (each.prompt_tokens ?? 0) + (each.completion_tokens ?? 0), 0);
  const facts = [
    page.model && `agent ${page.model}`,
    page.user_model && `user ${page.user_model}`,
    plural(page.turns, "turn"),
    page.steps !== null && plural(page.steps, "step"),
    plural(page.tool_calls, "call"),
    duration(page.timings?.seconds),
    tokens > 0 && `${short(tokens)} tokens`,
    page.cost ? money(page.cost) : null,
    page.timings?.retries ? plural(page.timings.retries, "retry", "retries") : null,
    page.seed !== null && `seed ${page.seed}`,
  ].filter(Boolean);
  const items = [
    { words: "Link to this view", act: () => void copy(session, location.href, "the link") },
    { words: "JSON", act: () => void copy(session, JSON.stringify(page, null, 2), "the trajectory as JSON") },
    { words: "JSON as a file", act: () => saveFile(new Blob([JSON.stringify(page, null, 2)], { type: "application/json" }), `${page.id}.json`) },
    ...(page.commands.show ? [{ words: "Command that shows it", act: () => void copy(session, page.commands.show ?? "", "the command") }] : []),
    ...(page.commands.replay ? [{ words: "Command that scores it again, by replay", act: () => void copy(session, page.commands.replay ?? "", "the command") }] : []),
    ...(report ? [] : [{ words: "Last request as cURL or Python …", act: () => actions.open("sent", page.messages.findLast((message) => message.speaker === "agent")?.index ?? 0) }]),
  ];
  return (
    <header class="trajectory-head">
      <div class="trajectory-title">
        <h1>
          <Outcome {...page} /> <span class="trajectory-id">{page.id}</span>
        </h1>
        <p class="facts">
          {page.reward !== null && <b>reward {reward(page.reward)}</b>}
          <span title={page.stop_words}>{page.stop_words || words(page.stop_reason)}</span>
          {page.status !== "completed" && <span class={`tag is-${page.status}`}>{page.status}</span>}
          {facts.map((fact) => (
            <span>{fact}</span>
          ))}
        </p>
        {page.error && (
          <p class="bad">
            <b>{page.error.kind}</b> {page.error.text}
          </p>
        )}
        {page.unscored && <p class="hint">Not scored: {page.unscored}</p>}
        <Origin run={run} page={page} query={query} />
      </div>
      <div class="actions">
        {neighbours && (
          <span class="neighbours">
            <button type="button" class="quiet" aria-label="Previous trajectory (p)" disabled={!neighbours.previous} onClick={() => onNeighbour(neighbours.previous, "")}>
              ‹
            </button>
            <span class="number">
              {neighbours.place === null ? "–" : count(neighbours.place + 1)} <small>of {count(neighbours.total)}</small>
            </span>
            <button type="button" class="quiet" aria-label="Next trajectory (n)" disabled={!neighbours.next} onClick={() => onNeighbour(neighbours.next, "")}>
              ›
            </button>
          </span>
        )}
        {actions.canWrite && (
          <span class="mark-buttons" role="group" aria-label={`Mark the trajectory as ${author()}`}>
            <button type="button" onClick={() => actions.mark({ kind: "good", message: null })}>
              Good
            </button>
            <button type="button" onClick={() => actions.mark({ kind: "bad", message: null })}>
              Bad
            </button>
            <Menu
              label="Mark"
              items={[
                { words: "Note …", act: () => actions.mark({ kind: "note", message: null }) },
                { words: "Label …", act: () => actions.mark({ kind: "label", message: null }) },
                { words: "Verdict …", act: () => actions.mark({ kind: "verdict", message: null }) },
              ]}
            />
          </span>
        )}
        <Menu label="Copy" items={items} />
        {actions.canWrite && (
          <a class="button" href={href(["run", run, "play"], { dataset: page.dataset, task: page.task_id })} title="Play this task" aria-label="Play this task">
            Play
          </a>
        )}
        {!report && (
          <a class="button" href={href(treePath(run, page.dataset, page.task_id), { leaf: page.id })}>
            Tree
          </a>
        )}
      </div>
      <div class="trajectory-judged">
        <Scores scores={page.scores} />
        <Verdict page={page} />
        <MarkList marks={page.marks.filter((mark) => mark.message === null)} actions={actions} />
        <Siblings run={run} page={page} query={query} />
      </div>
    </header>
  );
}

function Scores({ scores }: { scores: Score[] }): VNode | null {
  if (!scores.length) return null;
  return (
    <ul class="scores" aria-label="Scores">
      {scores.map((score) => (
        <li>
          <details>
            <summary class={`is-${verdictOf(score)}`}>
              <span aria-hidden="true">{SCORE_SIGNS[verdictOf(score)]}</span> <b>{words(score.name)}</b>{" "}
              <span class="number">{score.value === null ? "unknown" : reward(score.value)}</span>
              {score.partial !== null && score.partial !== score.value && <small> (partly {reward(score.partial)})</small>}
              {score.decides ? <small class="unseen"> counts for success</small> : <small>, for information only</small>}
              {score.reason && <span class="score-reason">{score.reason}</span>}
            </summary>
            <Evidence evidence={score.evidence} />
          </details>
        </li>
      ))}
    </ul>
  );
}

const SCORE_SIGNS = { pass: "✓", miss: "✕", unknown: "○", aside: "·" } as const;

/** A score that decides nothing is neither good nor bad: 0 may be what one hopes for. */
function verdictOf(score: Score): keyof typeof SCORE_SIGNS {
  if (score.value === null) return "unknown";
  if (!score.decides) return "aside";
  return score.value >= 1 ? "pass" : "miss";
}

function Evidence({ evidence }: { evidence: Json }): VNode {
  const isEmpty = evidence === null || (isObject(evidence) && !Object.keys(evidence).length);
  return <div class="evidence">{isEmpty ? <span class="hint">The scorer gave no evidence.</span> : <JsonView value={evidence} />}</div>;
}

function Verdict({ page }: { page: TrajectoryPage }): VNode | null {
  const { filtered } = page;
  if (!filtered && !page.live_marks.length) return null;
  const why = Array.isArray(filtered?.why) ? filtered.why.join(", ") : "";
  return (
    <p class="verdict">
      {filtered && (
        <>
          Filters: <b>{String(filtered.verdict)}</b> {why && <span>({words(why)})</span>}
        </>
      )}
      {page.live_marks.map((mark) => (
        <span class="tag is-fault">{words(mark)}</span>
      ))}
    </p>
  );
}

function Origin({ run, page, query }: { run: string; page: TrajectoryPage; query: URLSearchParams }): VNode | null {
  const { branch, author: person } = page;
  const made = page.messages.at(-1)?.at;
  if (!branch?.parent && !person) return null;
  return (
    <p class="hint">
      {person && `Made by ${person}${made ? `, ${wholeDate(made)}` : ""}. `}
      {branch?.parent && (
        <>
          Branched from <a href={href(trajectoryPath(run, { dataset: page.dataset, id: branch.parent }), listQuery(query))}>{branch.parent}</a> after {plural(Number(branch.shared_messages ?? 0), "message")}
          {branch.reason && ` (${words(branch.reason)})`}
        </>
      )}
    </p>
  );
}

function Siblings({ run, page, query }: { run: string; page: TrajectoryPage; query: URLSearchParams }): VNode | null {
  if (!page.siblings.length) return null;
  return (
    <nav class="siblings" aria-label="Other attempts at this task">
      <span class="hint">{plural(page.sibling_count, "other attempt")}</span>
      {page.siblings.map((each) => {
        const outcome = outcomeOf(each);
        return (
          <a class={`outcome is-${outcome}`} href={href(trajectoryPath(run, { dataset: page.dataset, id: each.id }), changed(listQuery(query), { panel: query.get("panel") }))} title={`${each.id}${each.author ? `, by ${each.author}` : ""}: reward ${reward(each.reward)}`}>
            <span aria-hidden="true">{OUTCOME_SIGNS[outcome]}</span>
            {attemptName(each.id, page.task_id)}
            <span class="unseen">{outcome}</span>
          </a>
        );
      })}
      {page.sibling_count > page.siblings.length && <a href={href(["run", run], { task: page.task_id })}>all</a>}
    </nav>
  );
}
