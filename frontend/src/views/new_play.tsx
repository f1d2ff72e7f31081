/** Begins a conversation in which a person plays: at which task, as whom. */

import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer, useTitle } from "../answers";
import { post } from "../api";
import { attemptName, firstLine, plural } from "../format";
import { Empty, Loading, Problem } from "../parts/notice";
import { OUTCOME_SIGNS, outcomeOf } from "../parts/outcome";
import { go, href, makeQuery, trajectoryPath } from "../router";
import { attempt, useSession } from "../session";
import type { Play, RunPage, TrajectoryList, TrajectoryRow } from "../types";

/** Attempts that are read for the list of tasks: as many as the server gives at once. */
const READ = 1000;
/** Tasks that are listed at once. A search finds the others. */
const LISTED = 50;

export function NewPlayView({ run, query }: { run: string; query: URLSearchParams }): VNode {
  useTitle("Play");
  const session = useSession();
  const page = useAnswer<RunPage>(["runs", run]);
  const [chosen, setDataset] = useState(query.get("dataset") ?? "");
  const [task, setTask] = useState(query.get("task") ?? "");
  const [role, setRole] = useState<"agent" | "user">("agent");
  const [model, setModel] = useState("");
  const [isBusy, setBusy] = useState(false);
  const from = query.get("from");
  const message = query.get("message");
  if (page.error) return <Problem error={page.error} />;
  if (!page.data) return <Loading what={run} />;
  if (!session.canWrite) return <Empty>This server only reads. Start rollout view without --read-only to play.</Empty>;
  const { row } = page.data;
  const dataset = chosen || (row.datasets[0] ?? "");
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    await attempt(session, async () => {
      const body = { dataset, task, from: from && message !== null ? { id: from, message: Number(message) } : null, role, model: model || null };
      const play = await post<Play>(["runs", run, "plays"], body);
      go(href(["run", run, "play", play.number]));
    });
    setBusy(false);
  };
  return (
    <main class="play-new">
      <h1>Play a part</h1>
      <p class="hint">You act, the environment answers. The trajectory is kept with your name as its author: a demonstration.</p>
      {row.datasets.length > 1 && !from && (
        <label class="field">
          Dataset
          <select
            value={dataset}
            onChange={(event) => {
              setDataset(event.currentTarget.value);
              setTask("");
            }}
          >
            {row.datasets.map((each) => (
              <option value={each}>{each}</option>
            ))}
          </select>
        </label>
      )}
      {from ? (
        <p>
          Task <b>{task}</b>, from message {message} of <a href={href(trajectoryPath(run, { dataset, id: from }), { at: message })}>{from}</a> on.
        </p>
      ) : (
        <TaskChoice key={dataset} run={run} dataset={dataset} task={task} onChoose={setTask} />
      )}
      {task && (
        <form class="form" onSubmit={(event) => void submit(event)}>
          <fieldset class="field">
            <legend>You are</legend>
            {(["agent", "user"] as const).map((each) => (
              <label class="is-inline">
                <input type="radio" name="role" checked={role === each} onChange={() => setRole(each)} /> the {each}
              </label>
            ))}
          </fieldset>
          <label class="field">
            Model of the {role === "agent" ? "user" : "agent"}
            <input value={model} placeholder={(role === "agent" ? row.user_model : row.model) ?? "as in the run"} onInput={(event) => setModel(event.currentTarget.value)} />
          </label>
          <footer>
            <button type="submit" class="primary" disabled={isBusy}>
              {isBusy ? "Opening the world…" : "Begin"}
            </button>
          </footer>
        </form>
      )}
    </main>
  );
}

interface ChoiceProperties {
  run: string;
  dataset: string;
  task: string;
  onChoose: (task: string) => void;
}

/** The tasks of a dataset with what became of them, and a search in their ids and messages. */
function TaskChoice({ run, dataset, task, onChoose }: ChoiceProperties): VNode {
  const [text, setText] = useState("");
  const wanted = useSettled(text.trim());
  const all = useAnswer<TrajectoryList>(["runs", run, "trajectories"], makeQuery({ dataset, sort: "task_id", desc: "0", limit: READ }));
  const said = useAnswer<TrajectoryList>(wanted ? ["runs", run, "trajectories"] : null, makeQuery({ dataset, q: wanted, limit: READ }));
  const named = useAnswer<TrajectoryList>(wanted ? ["runs", run, "trajectories"] : null, makeQuery({ dataset, task: wanted, limit: READ }));
  const tasks = useMemo(() => {
    const known = all.data?.rows ?? [];
    if (!wanted) return tasksOf(known);
    const fits = known.filter((row) => `${row.task_id} ${row.first ?? ""}`.toLowerCase().includes(wanted.toLowerCase()));
    return tasksOf([...(named.data?.rows ?? []), ...fits, ...(said.data?.rows ?? [])]);
  }, [all.data, said.data, named.data, wanted]);
  if (task) {
    return (
      <p class="play-task">
        <span>
          Task <b>{task}</b>
        </span>
        <button type="button" onClick={() => onChoose("")}>
          Choose another
        </button>
      </p>
    );
  }
  if (all.error) return <Problem error={all.error} retry={all.reload} />;
  const isLoading = all.isLoading || (!!wanted && (said.isLoading || named.isLoading));
  return (
    <section class="task-choice" aria-label="Task">
      <label class="field">
        Task
        <input
          type="search"
          placeholder="Search in ids and messages"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            const first = tasks[0];
            if (event.key === "Enter" && first && wanted === text.trim()) onChoose(first.id);
          }}
        />
      </label>
      <ul class="task-list">
        {tasks.slice(0, LISTED).map((each) => (
          <li>
            <button type="button" class="quiet" onClick={() => onChoose(each.id)}>
              <b>{each.id}</b>
              <span class="task-outcomes">
                {each.rows.slice(0, 8).map((row) => (
                  <span class={`outcome is-${outcomeOf(row)}`} title={attemptName(row.id, each.id)}>
                    {OUTCOME_SIGNS[outcomeOf(row)]}
                  </span>
                ))}
              </span>
              <small>{firstLine(each.rows[0]?.first ?? "", 160)}</small>
            </button>
          </li>
        ))}
      </ul>
      <p class="hint" role="status">
        {isLoading ? "Searching…" : tasks.length > LISTED ? `The first ${LISTED} tasks. Search for others.` : plural(tasks.length, "task")}
      </p>
      {wanted && !isLoading && !tasks.some((each) => each.id === wanted) && (
        <button type="button" onClick={() => onChoose(wanted)}>
          The task with the id “{wanted}”
        </button>
      )}
    </section>
  );
}

interface ListedTask {
  id: string;
  rows: TrajectoryRow[];
}

/** Attempts by their tasks, in the order in which these come first, each attempt once. */
function tasksOf(rows: TrajectoryRow[]): ListedTask[] {
  const found = new Map<string, Map<string, TrajectoryRow>>();
  for (const row of rows) {
    const attempts = found.get(row.task_id) ?? new Map<string, TrajectoryRow>();
    found.set(row.task_id, attempts.set(row.id, row));
  }
  return [...found].map(([id, attempts]) => ({ id, rows: [...attempts.values()] }));
}

/** The value as it was when nothing changed for a moment, so that not each letter is searched for. */
function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 200);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
