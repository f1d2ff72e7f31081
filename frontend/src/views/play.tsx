/** A person plays: as the agent, with tools as forms, or as the user. It is recorded as any trajectory. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useAnswer, useThrottled, useTitle } from "../answers";
import { post } from "../api";
import { useLive } from "../live";
import { Empty, Loading, Problem } from "../parts/notice";
import { JsonField, readTool, SchemaForm } from "../parts/schema_form";
import { isObject } from "../parts/json";
import { go, href, trajectoryPath } from "../router";
import { attempt, useSession } from "../session";
import type { JsonObject, Play, RunPage, ToolSchema } from "../types";
import { Conversation, Given } from "./trajectory/lanes";
import { Step, type StepActions } from "./trajectory/step";

export function NewPlayView({ run, query }: { run: string; query: URLSearchParams }): VNode {
  useTitle("Play");
  const session = useSession();
  const page = useAnswer<RunPage>(["runs", run]);
  const [dataset, setDataset] = useState(query.get("dataset") ?? "");
  const [task, setTask] = useState(query.get("task") ?? "");
  const [role, setRole] = useState<"agent" | "user">("agent");
  const [model, setModel] = useState("");
  const [isBusy, setBusy] = useState(false);
  const from = query.get("from");
  const message = query.get("message");
  useEffect(() => {
    if (!dataset && page.data?.row.datasets[0]) setDataset(page.data.row.datasets[0]);
  }, [page.data]);
  if (page.error) return <Problem error={page.error} />;
  if (!page.data) return <Loading what={run} />;
  if (!session.canWrite) return <Empty>This server only reads. Start rollout view without --read-only to play.</Empty>;
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
      <form class="form" onSubmit={(event) => void submit(event)}>
        <label class="field">
          Dataset
          <select value={dataset} onChange={(event) => setDataset(event.currentTarget.value)}>
            {page.data.row.datasets.map((each) => (
              <option value={each}>{each}</option>
            ))}
          </select>
        </label>
        <label class="field">
          Task
          <input required value={task} placeholder="id of a task, as in the table" onInput={(event) => setTask(event.currentTarget.value)} />
        </label>
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
          <input value={model} placeholder={(role === "agent" ? page.data.row.user_model : page.data.row.model) ?? "as in the run"} onInput={(event) => setModel(event.currentTarget.value)} />
        </label>
        <footer>
          <button type="submit" class="primary" disabled={isBusy}>
            {isBusy ? "Opening the world…" : "Begin"}
          </button>
        </footer>
      </form>
    </main>
  );
}

const NO_ACTIONS: StepActions = { canWrite: false, canGrow: false, open: () => undefined, mark: () => undefined, unmark: () => undefined, linkTo: () => location.hash };

export function PlayView({ run, number }: { run: string; number: number }): VNode {
  const session = useSession();
  const answer = useAnswer<Play>(["runs", run, "plays", number]);
  const [newest, setNewest] = useState<Play | null>(null);
  const reload = useThrottled(answer.reload, 300);
  useLive(run, (kind, data) => {
    if (kind === "play" && isPlay(data) && data.number === number) setNewest(data);
    else if (kind === "play" || kind === "poll") reload();
  });
  useEffect(() => setNewest(answer.data), [answer.data]);
  const play = newest;
  useTitle(play ? `Play ${play.task_id}` : "Play");
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [play?.messages.length]);
  if (answer.error && !play) return <Problem error={answer.error} retry={answer.reload} />;
  if (!play) return <Loading what="the play" />;
  const act = async (what: "act" | "end", body: unknown) => {
    await attempt(session, async () => {
      const next = await post<Play | null>(["runs", run, "plays", number, what], body);
      if (isPlay(next)) setNewest(next);
      else answer.reload();
    });
  };
  const isOpen = play.waits_for === play.role && session.canWrite;
  const isOver = play.state === "done" || play.state === "ended" || play.state === "failed";
  return (
    <main class="play">
      <header class="view-head">
        <div>
          <h1>{play.task_id}</h1>
          <p class="hint">
            You are the {play.role}. {isOver ? `It is over (${play.state}).` : play.waits_for === play.role ? "It is your turn." : "The other side is acting…"}
          </p>
        </div>
        <div class="actions">
          {isOver ? (
            <a class="button primary" href={href(trajectoryPath(run, play))}>
              Read the trajectory
            </a>
          ) : (
            <button type="button" disabled={!session.canWrite} onClick={() => void act("end", {})}>
              End the conversation
            </button>
          )}
        </div>
      </header>
      {play.error && <p class="notice is-problem">{play.error}</p>}
      <Conversation messages={play.messages} brief={play.brief} given={play.role === "agent" && <Given system={play.system} tools={play.tools} />} draw={(message) => <Step key={message.index} run={run} message={message} marks={[]} isCurrent={false} areOpen={false} began={null} actions={NO_ACTIONS} onSelect={() => undefined} />} />
      {isOpen && <ActForm key={play.messages.length} play={play} onAct={(body) => void act("act", body)} />}
      <div ref={end} />
    </main>
  );
}

function isPlay(data: unknown): data is Play {
  return typeof data === "object" && data !== null && "messages" in data && "number" in data;
}

function ActForm({ play, onAct }: { play: Play; onAct: (body: unknown) => void }): VNode {
  const tools = play.role === "agent" ? play.tools.flatMap((tool) => readTool(tool) ?? []) : [];
  const [text, setText] = useState("");
  const [tool, setTool] = useState<ToolSchema | null>(null);
  const [values, setValues] = useState<JsonObject>({});
  const [isJson, setJson] = useState(false);
  const say = (event: Event) => {
    event.preventDefault();
    onAct({ text });
  };
  const call = (event: Event) => {
    event.preventDefault();
    if (tool) onAct({ calls: [{ name: tool.name, arguments: values }] });
  };
  return (
    <section class="act" aria-label="Your turn">
      <form class="form" onSubmit={say}>
        <label class="field">
          Say
          <textarea rows={3} required value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && event.currentTarget.form?.requestSubmit()} />
        </label>
        <button type="submit" class="primary">
          Say it
        </button>
      </form>
      {tools.length > 0 && (
        <form class="form" onSubmit={call}>
          <label class="field">
            Or call a tool
            <select
              value={tool?.name ?? ""}
              onChange={(event) => {
                setTool(tools.find((each) => each.name === event.currentTarget.value) ?? null);
                setValues({});
              }}
            >
              <option value="">–</option>
              {tools.map((each) => (
                <option value={each.name}>{each.name}</option>
              ))}
            </select>
          </label>
          {tool && (
            <>
              {tool.description && <p class="hint">{tool.description}</p>}
              {isJson ? <JsonField isRequired rows={6} value={values} onChange={(value) => setValues(isObject(value) ? value : {})} /> : <SchemaForm key={tool.name} schema={tool.parameters} value={values} onChange={setValues} />}
              <label class="is-inline">
                <input type="checkbox" checked={isJson} onChange={(event) => setJson(event.currentTarget.checked)} /> as JSON
              </label>
              <button type="submit" class="primary">
                Call {tool.name}
              </button>
            </>
          )}
        </form>
      )}
    </section>
  );
}
