/** What exactly was sent to the model at a step, and what of the conversation was folded or left out. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../../answers";
import { firstLine, plural } from "../../format";
import { copy } from "../../parts/copy";
import { Dialog } from "../../parts/dialog";
import { JsonView } from "../../parts/json";
import { Empty, Loading, Problem } from "../../parts/notice";
import { LongText } from "../../parts/text";
import { useSession } from "../../session";
import type { JsonObject, Sent, TrajectoryPage } from "../../types";

type Form = "messages" | "tools" | "curl" | "python";
const FORMS: Record<Form, string> = { messages: "Messages", tools: "Tools", curl: "cURL", python: "Python" };
const COPIES: Record<Form, string> = { messages: "messages as JSON", tools: "tools as JSON", curl: "cURL command", python: "Python script" };
const STATES = { sent: "sent", folded: "folded", left_out: "left out" } as const;

interface Properties {
  run: string;
  page: TrajectoryPage;
  message: number;
  onClose: () => void;
}

export function SentDialog({ run, page, message, onClose }: Properties): VNode {
  const session = useSession();
  const step = page.messages.find((each) => each.index === message)?.step ?? null;
  const query = new URLSearchParams({ dataset: page.dataset, id: page.id, step: String(step) });
  const answer = useAnswer<Sent>(step === null ? null : ["runs", run, "sent"], query);
  const [form, setForm] = useState<Form>("messages");
  const sent = answer.data;
  const text = sent ? { messages: JSON.stringify(sent.messages, null, 2), tools: JSON.stringify(sent.tools, null, 2), curl: sent.curl, python: sent.python }[form] : "";
  return (
    <Dialog title={step === null ? "What was sent" : `Sent at step ${step}${sent?.model ? ` to ${sent.model}` : ""}`} onClose={onClose} isWide>
      {answer.error && <Problem error={answer.error} />}
      {step === null && <Empty>No model was asked for this message. Choose a step of the agent.</Empty>}
      {step !== null && !sent && !answer.error && <Loading what="the request" />}
      {sent && (
        <>
          {sent.note && <p class="hint">{sent.note}</p>}
          <div class="dialog-tools">
            <div class="chips" role="group" aria-label="Form">
              {(Object.keys(FORMS) as Form[]).map((each) => (
                <button type="button" class="chip" aria-pressed={each === form} onClick={() => setForm(each)}>
                  {FORMS[each]}
                  {each === "messages" && <small>{sent.messages.length}</small>}
                  {each === "tools" && <small>{sent.tools.length}</small>}
                </button>
              ))}
            </div>
            <button type="button" onClick={() => void copy(session, text, `the ${COPIES[form]}`)}>
              Copy {COPIES[form]}
            </button>
          </div>
          {form === "messages" && <Messages sent={sent} page={page} />}
          {form === "tools" && <JsonView value={sent.tools} />}
          {(form === "curl" || form === "python") && <pre class="code" tabIndex={0}>{text}</pre>}
        </>
      )}
    </Dialog>
  );
}

function Messages({ sent, page }: { sent: Sent; page: TrajectoryPage }): VNode {
  const hidden = sent.shown.filter((each) => each.state !== "sent");
  const texts = new Map(page.messages.map((message) => [message.index, message]));
  return (
    <div class="sent">
      {hidden.length > 0 && (
        <details class="sent-hidden">
          <summary>
            {plural(hidden.length, "message")} of {sent.shown.length} folded or left out
          </summary>
          <ol>
            {sent.shown.map((each) => (
              <li class={`is-${each.state}`}>
                <span class="tag">{STATES[each.state]}</span> <span class="number">{each.index}</span> {firstLine(texts.get(each.index)?.text || texts.get(each.index)?.calls.map((call) => call.name).join(", ") || "result of a call")}
              </li>
            ))}
          </ol>
        </details>
      )}
      <ol class="sent-messages">
        {sent.messages.map((message) => (
          <SentMessage message={message} />
        ))}
      </ol>
    </div>
  );
}

function SentMessage({ message }: { message: JsonObject }): VNode {
  const { role, content, ...rest } = message;
  return (
    <li class={`is-role-${String(role)}`}>
      <span class="speaker">{String(role)}</span>
      {typeof content === "string" ? <LongText text={content} /> : content !== null && content !== undefined && <JsonView value={content} />}
      {Object.keys(rest).length > 0 && <JsonView value={rest} />}
    </li>
  );
}
