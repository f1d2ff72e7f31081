/** A person plays: as the agent, with tools as forms, or as the user. It is recorded as any trajectory. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useAnswer, useThrottled, useTitle } from "../answers";
import { post } from "../api";
import { useLive } from "../live";
import { Loading, Problem } from "../parts/notice";
import { JsonField, readTool, SchemaForm } from "../parts/schema_form";
import { isObject } from "../parts/json";
import { href, trajectoryPath } from "../router";
import { attempt, useSession } from "../session";
import type { JsonObject, Play, ToolSchema } from "../types";
import { Conversation, Given } from "./trajectory/lanes";
import { Step, type StepActions } from "./trajectory/step";

const NO_ACTIONS: StepActions = { canWrite: false, canGrow: () => false, open: () => undefined, mark: () => undefined, unmark: () => undefined, linkTo: () => location.hash };

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
  const resume = async () => {
    if (await attempt(session, () => post(["runs", run, "growths", number, "resume"], {}))) answer.reload();
  };
  const act = async (what: "act" | "end", body: unknown) => {
    await attempt(session, async () => {
      const next = await post<Play | null>(["runs", run, "plays", number, what], body);
      if (isPlay(next)) setNewest(next);
      else answer.reload();
    });
  };
  const isOpen = play.waits_for === play.role && session.canWrite;
  const isInterrupted = ["waiting", "stopped", "failed"].includes(play.state);
  const isOver = play.state === "done" || play.state === "ended";
  return (
    <main class="play">
      <header class="view-head">
        <div>
          <h1>{play.task_id}</h1>
          <p class="hint">
            You are the {play.role}. {isOver ? `It is over (${play.state}).` : isInterrupted ? `It ${play.state === "failed" ? "failed" : "was interrupted"} and can be resumed.` : play.waits_for === play.role ? "It is your turn." : "The other side is acting…"}
          </p>
        </div>
        <div class="actions">
          {isOver ? (
            <a class="button primary" href={href(trajectoryPath(run, play))}>
              Read the trajectory
            </a>
          ) : isInterrupted ? (
            <button type="button" class="primary" disabled={!session.canWrite} onClick={() => void resume()}>
              Resume
            </button>
          ) : (
            <button type="button" disabled={!session.canWrite} onClick={() => void act("end", {})}>
              End the conversation
            </button>
          )}
        </div>
      </header>
      {play.error && <p class="notice is-problem">{play.error}</p>}
      <Conversation messages={play.messages} brief={play.brief} given={play.role === "agent" && <Given system={play.system} tools={play.tools} />} draw={(message) => <Step key={message.index} run={run} message={message} marks={[]} isCurrent={false} areOpen={false} start={null} actions={NO_ACTIONS} onSelect={() => undefined} />} />
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
              {isJson ? <JsonField key={tool.name} isRequired isObjectOnly rows={6} value={values} onChange={(value) => setValues(isObject(value) ? value : {})} /> : <SchemaForm key={tool.name} schema={tool.parameters} value={values} onChange={setValues} />}
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
