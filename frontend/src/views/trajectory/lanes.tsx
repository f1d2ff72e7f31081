/** The conversation in three lanes: the user with what only the user knows, the agent, and tools with the data they return.
 *
 * What the user said stays in view beside everything that answers it. A call lies in the agent's lane and its result beside
 * it. On a narrow window the lanes become one column. */

import { Component, type ComponentChildren, type VNode } from "preact";
import { useMemo } from "preact/hooks";
import { plural } from "../../format";
import { readTool } from "../../parts/schema_form";
import { LongText } from "../../parts/text";
import type { Json, Mark, ShownMessage, Span, TrajectoryPage } from "../../types";
import { Step, type StepActions } from "./step";

interface Properties {
  run: string;
  page: TrajectoryPage;
  at: number | null;
  areOpen: boolean;
  actions: StepActions;
  onSelect: (message: number) => void;
}

export function Lanes({ run, page, at, areOpen, actions, onSelect }: Properties): VNode {
  const marks = useMemo(() => marksByMessage(page.marks), [page.marks]);
  const starts = useMemo(() => startsOf(page.spans), [page.spans]);
  return (
    <Conversation
      messages={page.messages}
      brief={page.brief}
      given={<Given system={page.system} tools={page.tools} />}
      draw={(message) => <Row key={message.index} run={run} message={message} marks={marks.get(message.index) ?? NONE} isCurrent={at === message.index} areOpen={areOpen} start={starts.get(message.index) ?? null} actions={actions} onSelect={onSelect} />}
      end={
        <p class="lanes-end">
          <span>{page.stop_words || page.stop_reason}</span>
        </p>
      }
    />
  );
}

interface ConversationProperties {
  messages: ShownMessage[];
  brief: string | null;
  given?: ComponentChildren;
  draw: (message: ShownMessage) => VNode;
  end?: ComponentChildren;
}

/** The frame of a conversation, also of one that is being played. */
export function Conversation({ messages, brief, given, draw, end }: ConversationProperties): VNode {
  const turns = useMemo(() => turnsOf(messages), [messages]);
  return (
    <section class={hasUser(messages) ? "lanes" : "lanes has-no-user"} aria-label="Conversation">
      {turns.map((turn, place) => (
        <div class="turn" key={turn.user[0]?.index ?? -1}>
          <div class="turn-user">
            {place === 0 && brief && <Brief text={brief} />}
            <div class="turn-said">{turn.user.map(draw)}</div>
          </div>
          <div class="turn-steps">
            {place === 0 && given}
            {turn.steps.map(draw)}
          </div>
        </div>
      ))}
      {end}
    </section>
  );
}

export const hasUser = (messages: readonly ShownMessage[]): boolean => messages.some((message) => message.speaker === "user");

interface Turn {
  /** What the user said, mostly one message. */
  user: ShownMessage[];
  steps: ShownMessage[];
}

function turnsOf(messages: ShownMessage[]): Turn[] {
  const turns: Turn[] = [];
  for (const message of messages) {
    const last = turns.at(-1);
    if (message.speaker === "user") {
      if (last && last.steps.length === 0) last.user.push(message);
      else turns.push({ user: [message], steps: [] });
    } else if (last) last.steps.push(message);
    else turns.push({ user: [], steps: [message] });
  }
  return turns;
}

const NONE: Mark[] = [];

function marksByMessage(marks: Mark[]): Map<number, Mark[]> {
  const found = new Map<number, Mark[]>();
  for (const mark of marks) if (mark.message !== null) found.set(mark.message, [...(found.get(mark.message) ?? []), mark]);
  return found;
}

/** When each message began, on the clock of the time bar. */
function startsOf(spans: Span[]): Map<number, number> {
  const found = new Map<number, number>();
  for (const span of spans) if (span.kind !== "opening" && !found.has(span.message)) found.set(span.message, span.start);
  return found;
}

function Brief({ text }: { text: string }): VNode {
  return (
    <div class="lane is-user is-brief">
      <details open>
        <summary>Brief, hidden from the agent</summary>
        <LongText text={text} />
      </details>
    </div>
  );
}

/** What the agent was given before the first word. */
export function Given({ system, tools }: { system: string | null; tools: Json[] }): VNode {
  const names = tools.flatMap((tool) => readTool(tool)?.name ?? []);
  return (
    <article class="step is-given" aria-label="What the agent was given">
      <div class="lane is-agent">
        <details>
          <summary>
            System prompt <small>{system ? plural(system.trim().split(/\s+/).length, "word") : "none"}</small>
          </summary>
          {system && <LongText text={system} />}
        </details>
      </div>
      <div class="lane is-tool">
        <details>
          <summary>{plural(names.length, "tool")}</summary>
          <p class="given-tools mono">{names.join(", ")}</p>
        </details>
      </div>
    </article>
  );
}

interface RowProperties {
  run: string;
  message: ShownMessage;
  marks: Mark[];
  isCurrent: boolean;
  areOpen: boolean;
  start: number | null;
  actions: StepActions;
  onSelect: (message: number) => void;
}

/** Drawn again only when something about this message changed: conversations may have hundreds. */
class Row extends Component<RowProperties> {
  override shouldComponentUpdate(next: Readonly<RowProperties>): boolean {
    const now = this.props;
    return now.message !== next.message || now.isCurrent || next.isCurrent || now.areOpen !== next.areOpen || now.marks !== next.marks || now.actions.canWrite !== next.actions.canWrite;
  }

  override render(properties: RowProperties): VNode {
    return <Step {...properties} />;
  }
}
