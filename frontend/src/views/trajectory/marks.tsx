/** Marks of people: the list, the dialog that makes one, and saving. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { author, hasAuthor, post, remove, setAuthor } from "../../api";
import { reward, wholeDate } from "../../format";
import { Dialog } from "../../parts/dialog";
import { attempt, useSession } from "../../session";
import type { Mark, MarkKind, TrajectoryPage } from "../../types";
import { labelOf, type StepActions } from "./step";

export interface MarkRequest {
  kind: MarkKind;
  message: number | null;
}

export interface MarkContent extends MarkRequest {
  value: number | null;
  text: string | null;
}

const SIGNS: Record<MarkKind, string> = { good: "▲", bad: "▼", note: "✎", label: "#", verdict: "§" };
const TITLES: Record<MarkKind, string> = { good: "Mark as good", bad: "Mark as bad", note: "Note", label: "Label", verdict: "Verdict" };

export function MarkList({ marks, actions }: { marks: Mark[]; actions: StepActions }): VNode | null {
  if (!marks.length) return null;
  return (
    <ul class="marks" aria-label="Marks">
      {marks.map((mark) => (
        <li class={`mark is-mark-${mark.kind}`}>
          <span title={`${mark.author}, ${wholeDate(mark.at)}`}>
            <span aria-hidden="true">{SIGNS[mark.kind]} </span>
            <b>{mark.kind === "label" ? <bdi>{mark.text ?? "label"}</bdi> : mark.kind}</b>
            {mark.kind === "verdict" && ` ${reward(mark.value)}`}
            {mark.text && mark.kind !== "label" && (
              <>
                {" "}
                <bdi>{mark.text}</bdi>
              </>
            )}
            <small>
              {" "}
              <bdi>{mark.author}</bdi>
            </small>
          </span>
          {actions.canWrite && (
            <button type="button" class="quiet small" aria-label={`Remove the mark ${mark.kind} by ${mark.author}`} onClick={() => actions.unmark(mark.number)}>
              ✕
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Good and bad are saved at once; the others ask for a text first. Everything asks once who we are. */
export function useMarks(run: string, page: TrajectoryPage, reload: () => void) {
  const session = useSession();
  const [asked, setAsked] = useState<MarkRequest | null>(null);
  const placeOf = (index: number | null): string => {
    const message = page.messages.find((each) => each.index === index);
    return message ? labelOf(message).toLowerCase() : "the whole trajectory";
  };
  const save = async (content: MarkContent) => {
    const body = { dataset: page.dataset, id: page.id, ...content };
    if (await attempt(session, () => post(["runs", run, "marks"], body))) {
      setAsked(null);
      session.say(`Marked ${placeOf(content.message)}.`);
      reload();
    }
  };
  const mark = (request: MarkRequest) => {
    if ((request.kind === "good" || request.kind === "bad") && hasAuthor()) void save({ ...request, value: null, text: null });
    else setAsked(request);
  };
  const unmark = async (number: number) => {
    if (await attempt(session, () => remove(["runs", run, "marks", number]))) reload();
  };
  const labels = [...new Set(page.marks.flatMap((each) => (each.kind === "label" && each.text ? [each.text] : [])))];
  return { asked, place: placeOf(asked?.message ?? null), mark, unmark: (number: number) => void unmark(number), save: (content: MarkContent) => void save(content), cancel: () => setAsked(null), labels };
}

interface DialogProperties {
  request: MarkRequest;
  place: string;
  labels: string[];
  onClose: () => void;
  onSave: (content: MarkContent) => void;
}

export function MarkDialog({ request, place, labels, onClose, onSave }: DialogProperties): VNode {
  const { kind, message } = request;
  const [text, setText] = useState("");
  const [value, setValue] = useState("1");
  const [name, setName] = useState(author());
  const isVerdict = kind === "verdict";
  const needsText = kind === "note" || kind === "label";
  const submit = (event: Event) => {
    event.preventDefault();
    setAuthor(name);
    onSave({ kind, message, value: isVerdict ? Number(value) : null, text: text.trim() || null });
  };
  return (
    <Dialog title={`${TITLES[kind]}, ${place}`} onClose={onClose}>
      <form onSubmit={submit} class="form">
        {isVerdict && (
          <label class="field">
            Score from 0 to 1
            <input autofocus type="number" min="0" max="1" step="any" required value={value} onFocus={(event) => event.currentTarget.select()} onInput={(event) => setValue(event.currentTarget.value)} />
          </label>
        )}
        <label class="field">
          {kind === "label" ? "Label" : needsText ? "Note" : "Reason (optional)"}
          {kind === "label" ? (
            <input autofocus required list="known-labels" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          ) : (
            <textarea autofocus={!isVerdict} rows={3} required={needsText} value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && event.currentTarget.form?.requestSubmit()} />
          )}
        </label>
        <datalist id="known-labels">
          {labels.map((label) => (
            <option value={label} />
          ))}
        </datalist>
        <label class="field">
          Your name
          <input required value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Save
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
