/** One message: words, reasoning, calls with their results, and what is on record of it. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { imageAddress } from "../../api";
import { duration, isWebAddress, money, plural, short, words } from "../../format";
import { isObject, JsonView, readJson, ResultText } from "../../parts/json";
import { Link, LongText } from "../../parts/text";
import { report } from "../../report";
import type { Mark, ShownCall, ShownMessage } from "../../types";
import { MarkList, type MarkRequest } from "./marks";

/** What a step offers beyond being read. */
export interface StepActions {
  canWrite: boolean;
  /** Whether branches can be grown behind a message. */
  canGrow: (message: number) => boolean;
  open: (what: "sent" | "correct" | "grow", message: number) => void;
  mark: (request: MarkRequest) => void;
  unmark: (number: number) => void;
  linkTo: (message: number) => string;
}

interface Properties {
  run: string;
  message: ShownMessage;
  marks: Mark[];
  isCurrent: boolean;
  areOpen: boolean;
  /** Seconds since the attempt began. */
  start: number | null;
  actions: StepActions;
  onSelect: (message: number) => void;
}

const LANES: Record<ShownMessage["speaker"], "user" | "agent" | "tool"> = {
  system: "agent",
  user: "user",
  agent: "agent",
  tool: "tool",
  note: "agent",
  observation: "tool",
};
const SPEAKERS: Record<ShownMessage["speaker"], string> = {
  system: "System prompt",
  user: "User",
  agent: "Agent",
  tool: "Tool",
  note: "Note of the agent's program",
  observation: "Observation",
};

export function Step({ run, message, marks, isCurrent, areOpen, start, actions, onSelect }: Properties): VNode {
  const lane = LANES[message.speaker];
  const isAgent = message.speaker === "agent";
  const hasBody = !!message.text || !!message.reasoning || message.images.length > 0 || message.user_calls.length > 0 || !isAgent;
  const states = [isCurrent && "is-current", message.is_masked && "is-masked", message.is_cut_off && "is-cut-off", message.turn !== null && "is-turn", message.author && "is-by-person"].filter(Boolean).join(" ");
  const choose = (event: MouseEvent) => {
    // Selecting text or pressing something within chooses nothing.
    if (isCurrent || (event.target as Element).closest("a, button, summary, input, textarea") || getSelection()?.toString()) return;
    onSelect(message.index);
  };
  return (
    <article class={`step ${states}`} data-message={message.index} aria-label={labelOf(message)} aria-current={isCurrent ? "step" : undefined} onClick={choose}>
      <Gutter message={message} start={start} actions={actions} />
      <div class={`lane is-${lane} is-said-by-${message.speaker}`}>
        <span class="speaker">
          {SPEAKERS[message.speaker]}
          {message.step !== null && ` · step ${message.step}`}
        </span>
        {message.user_calls.map((call) => (
          <UserCallView call={call} />
        ))}
        {message.reasoning && <Reasoning text={message.reasoning} isOpen={areOpen} />}
        {hasBody && <Body message={message} run={run} />}
        <Remarks message={message} />
        <MarkList marks={marks} actions={actions} />
        <StepTools message={message} actions={actions} isAgent={isAgent} />
      </div>
      {message.calls.map((call) => (
        <CallRow call={call} run={run} />
      ))}
    </article>
  );
}

/** A message in words: the step of the agent, or who speaks. */
export function labelOf(message: ShownMessage): string {
  if (message.step !== null) return `Step ${message.step}`;
  if (message.turn !== null) return `User, turn ${message.turn}`;
  return message.speaker === "user" ? "Closing words of the user" : SPEAKERS[message.speaker];
}

function Gutter({ message, start, actions }: { message: ShownMessage; start: number | null; actions: StepActions }): VNode {
  const name = message.step !== null ? String(message.step) : message.turn !== null ? `Turn ${message.turn}` : message.speaker === "user" ? "Closing" : "·";
  return (
    <span class="gutter">
      <a href={actions.linkTo(message.index)} aria-label={`Link to ${labelOf(message)}`}>
        {name}
      </a>
      {start !== null && start >= 0.001 && <small title="Since the attempt began">+{duration(start)}</small>}
      {message.seconds > 0 && <small title="Time of the request to the model">{duration(message.seconds)}</small>}
      {message.prompt_tokens > 0 && (
        <small title={`${message.prompt_tokens} prompt tokens, ${message.completion_tokens} completion tokens`}>
          {short(message.prompt_tokens)}→{short(message.completion_tokens)}
        </small>
      )}
      {message.cost > 0 && <small>{money(message.cost)}</small>}
    </span>
  );
}

function Body({ message, run }: { message: ShownMessage; run: string }): VNode {
  const { text, speaker } = message;
  const isPage = speaker === "observation" && message.url !== null;
  return (
    <>
      {isPage && <PageLine url={message.url} title={message.title} />}
      <Pictures names={message.images} run={run} of={message.title ?? "page"} />
      {isPage && message.images.length > 0 ? (
        <details class="page-text">
          <summary>What the model read</summary>
          <LongText text={text} isMono />
        </details>
      ) : speaker === "tool" || speaker === "observation" ? (
        <ResultText text={text} />
      ) : text ? (
        <LongText text={text} />
      ) : speaker === "agent" ? null : (
        <p class="hint">says nothing</p>
      )}
    </>
  );
}

function PageLine({ url, title }: { url: string | null; title: string | null }): VNode | null {
  if (!url) return null;
  return (
    <p class="page-line">
      {title && <b>{title}</b>} <span class="mono">{isWebAddress(url) ? <Link address={url} /> : url}</span>
    </p>
  );
}

function Pictures({ names, run, of }: { names: string[]; run: string; of: string }): VNode | null {
  if (!names.length) return null;
  return (
    <div class="pictures">
      {names.map((name) => (
        <img src={imageAddress(run, name)} alt={`Screenshot: ${of}`} loading="lazy" />
      ))}
    </div>
  );
}

/** Folded, and unfolded together with all others by `f`. */
function Reasoning({ text, isOpen }: { text: string; isOpen: boolean }): VNode {
  const element = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (element.current) element.current.open = isOpen;
  }, [isOpen]);
  return (
    <details class="reasoning" ref={element}>
      <summary>
        Reasoning <small>{plural(text.trim().split(/\s+/).length, "word")}</small>
      </summary>
      <div class="text">{text}</div>
    </details>
  );
}

/** The mark of what no model wrote. It is no fault; who wrote it has a tag of its own. */
const SCRIPTED = "scripted";

function Remarks({ message }: { message: ShownMessage }): VNode | null {
  const tags: ComponentChildren[] = [
    ...message.marks.filter((mark) => mark !== SCRIPTED).map((mark) => <span class="tag is-fault">{words(mark)}</span>),
    ...message.filter_marks.map((mark) => (
      <span class="tag is-filter" title={mark.evidence}>
        {words(mark.filter)}: {mark.reason}
      </span>
    )),
    message.retries > 0 && <span class="tag is-retry">{plural(message.retries, "retry", "retries")}</span>,
    message.is_scripted && !message.author && <span class="tag">written by the agent's program</span>,
    message.author && <span class="tag is-person">by {message.author}</span>,
    message.is_masked && <span class="tag">context only</span>,
    message.is_cut_off && <span class="tag">cut off by filters</span>,
    message.weight_version && <span class="tag mono">weights {message.weight_version}</span>,
  ].filter(Boolean);
  return tags.length ? <p class="remarks">{tags}</p> : null;
}

function StepTools({ message, actions, isAgent }: { message: ShownMessage; actions: StepActions; isAgent: boolean }): VNode | null {
  if (report) return null;
  const button = (text: string, act: () => void) => (
    <button type="button" class="quiet small" onClick={act}>
      {text}
    </button>
  );
  return (
    <div class="step-tools">
      {isAgent && button("What was sent", () => actions.open("sent", message.index))}
      {actions.canWrite && (
        <>
          {button("Good", () => actions.mark({ kind: "good", message: message.index }))}
          {button("Bad", () => actions.mark({ kind: "bad", message: message.index }))}
          {button("Note", () => actions.mark({ kind: "note", message: message.index }))}
          {button("Label", () => actions.mark({ kind: "label", message: message.index }))}
          {isAgent && button("Correct", () => actions.open("correct", message.index))}
          {actions.canGrow(message.index) && button("Grow on", () => actions.open("grow", message.index))}
        </>
      )}
    </div>
  );
}

function CallRow({ call, run }: { call: ShownCall; run: string }): VNode {
  const isError = call.error_kind !== null;
  return (
    <div class={`call${isError ? " is-error" : ""}${call.is_undone ? " is-undone" : ""}`}>
      <div class="lane is-agent call-asked">
        <CallView call={call} />
      </div>
      <div class="lane is-tool call-answered">
        <span class="speaker">Result</span>
        {isError && <span class="tag is-error">{errorWords(call.error_kind)}</span>}
        {call.is_undone && <span class="tag">undone</span>}
        {call.url && <PageLine url={call.url} title={call.title} />}
        <Pictures names={call.images} run={run} of={call.title ?? call.name} />
        {call.result === null ? (
          <p class="hint">not answered</p>
        ) : call.images.length > 0 && call.url ? (
          <details class="page-text">
            <summary>What the model read</summary>
            <LongText text={call.result} isMono />
          </details>
        ) : (
          <ResultText text={call.result} />
        )}
      </div>
    </div>
  );
}

/** What went wrong with a call, in words. */
export function errorWords(kind: string | null): string {
  return kind === "tool" ? "tool error" : words(kind ?? "");
}

export function CallView({ call }: { call: { name: string; arguments: ShownCall["arguments"]; written: string } }): VNode {
  const hasArguments = call.arguments !== null && Object.keys(call.arguments).length > 0;
  return (
    <div class="call-view">
      <span class="call-name">{call.name}</span>
      {call.arguments === null ? (
        <>
          <span class="tag is-error">no JSON object</span>
          <LongText text={call.written} isMono />
        </>
      ) : hasArguments ? (
        <JsonView value={call.arguments} />
      ) : (
        <small class="hint"> no arguments</small>
      )}
    </div>
  );
}

function UserCallView({ call }: { call: { name: string; arguments: string; result: string } }): VNode {
  const value = readJson(call.arguments);
  return (
    <details class="user-call">
      <summary>
        The user calls <span class="call-name">{call.name}</span>
      </summary>
      {isObject(value) ? <JsonView value={value} /> : <LongText text={call.arguments} isMono />}
      <ResultText text={call.result} />
    </details>
  );
}
