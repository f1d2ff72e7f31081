/** The conversation in three lanes: the user with what only the user knows, the agent, and tools with the data they return.
 *
 * A call lies in the agent's lane and its result beside it. On a narrow window the lanes become one column. */

import { Component, type VNode } from "preact";
import { useMemo } from "preact/hooks";
import { plural } from "../../format";
import { readTool } from "../../parts/schema_form";
import { LongText } from "../../parts/text";
import type { Mark, ShownMessage, TrajectoryPage } from "../../types";
import { Step } from "./step";
import type { StepActions } from "./view";

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
  const first = page.messages[0]?.at ?? null;
  const hasUser = page.messages.some((message) => message.speaker === "user");
  return (
    <section class={hasUser ? "lanes" : "lanes has-no-user"} aria-label="Conversation">
      <Given page={page} />
      {page.messages.map((message) => (
        <LaneRow key={message.index} run={run} message={message} marks={marks.get(message.index) ?? NONE} isCurrent={at === message.index} areOpen={areOpen} began={first} actions={actions} onSelect={onSelect} />
      ))}
      <p class="lanes-end">
        <span>{page.stop_words || page.stop_reason}</span>
      </p>
    </section>
  );
}

const NONE: Mark[] = [];

function marksByMessage(marks: Mark[]): Map<number, Mark[]> {
  const found = new Map<number, Mark[]>();
  for (const mark of marks) if (mark.message !== null) found.set(mark.message, [...(found.get(mark.message) ?? []), mark]);
  return found;
}

/** What each side was given before the first word. */
function Given({ page }: { page: TrajectoryPage }): VNode {
  const tools = page.tools.flatMap((tool) => readTool(tool)?.name ?? []);
  return (
    <article class="step is-given" aria-label="What each side was given">
      {page.brief && (
        <div class="lane is-user">
          <details open>
            <summary>Brief, hidden from the agent</summary>
            <LongText text={page.brief} />
          </details>
        </div>
      )}
      <div class="lane is-agent">
        <details>
          <summary>
            System prompt <small>{page.system ? plural(page.system.trim().split(/\s+/).length, "word") : "none"}</small>
          </summary>
          {page.system && <LongText text={page.system} />}
        </details>
      </div>
      <div class="lane is-tool">
        <details>
          <summary>{plural(tools.length, "tool")}</summary>
          <p class="given-tools mono">{tools.join(", ")}</p>
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
  began: number | null;
  actions: StepActions;
  onSelect: (message: number) => void;
}

/** Drawn again only when something about this message changed: conversations may have hundreds. */
class LaneRow extends Component<RowProperties> {
  override shouldComponentUpdate(next: Readonly<RowProperties>): boolean {
    const now = this.props;
    return now.message !== next.message || now.isCurrent || next.isCurrent || now.areOpen !== next.areOpen || now.marks !== next.marks || now.actions.canGrow !== next.actions.canGrow;
  }

  override render(properties: RowProperties): VNode {
    return <Step {...properties} />;
  }
}
