/** The editor for what an answer of the agent should have been. The original stays as it is. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { post } from "../../api";
import { Dialog } from "../../parts/dialog";
import { JsonField, readTool, SchemaForm } from "../../parts/schema_form";
import { isObject } from "../../parts/json";
import { go, href, trajectoryPath } from "../../router";
import { attempt, useSession } from "../../session";
import type { JsonObject, Key, ShownMessage, ToolSchema, TrajectoryPage } from "../../types";

interface EditedCall {
  number: number;
  name: string;
  arguments: JsonObject;
  isJson: boolean;
}

interface Properties {
  run: string;
  page: TrajectoryPage;
  message: ShownMessage;
  onClose: () => void;
  onDone: () => void;
}

export function CorrectDialog({ run, page, message, onClose, onDone }: Properties): VNode {
  const session = useSession();
  const tools = page.tools.flatMap((tool) => readTool(tool) ?? []);
  const [content, setContent] = useState(message.text);
  const [reasoning, setReasoning] = useState(message.reasoning ?? "");
  const [calls, setCalls] = useState<EditedCall[]>(() => message.calls.map((call, number) => ({ number, name: call.name, arguments: call.arguments ?? {}, isJson: false })));
  const [isBusy, setBusy] = useState(false);
  const change = (number: number, values: Partial<EditedCall>) => setCalls((before) => before.map((call) => (call.number === number ? { ...call, ...values } : call)));
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    await attempt(session, async () => {
      const body = { dataset: page.dataset, id: page.id, message: message.index, content: content || null, reasoning: reasoning || null, tool_calls: calls.map((call) => ({ name: call.name, arguments: call.arguments })) };
      const made = await post<Key>(["runs", run, "corrections"], body);
      session.say(`Saved the correction as ${made.id}.`);
      onDone();
      onClose();
      go(href(trajectoryPath(run, made), { at: message.index }));
    });
    setBusy(false);
  };
  return (
    <Dialog title={`Correct step ${message.step ?? message.index}`} onClose={onClose} isWide>
      <form class="form" onSubmit={(event) => void submit(event)} onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && event.currentTarget.requestSubmit()}>
        <p class="hint">Write what the agent should have done. The original stays; the correction becomes a branch with your name.</p>
        <label class="field">
          Text
          <textarea rows={4} autofocus value={content} onInput={(event) => setContent(event.currentTarget.value)} />
        </label>
        <details open={!!reasoning}>
          <summary>Reasoning</summary>
          <label class="field">
            <span class="unseen">Reasoning</span>
            <textarea rows={5} value={reasoning} onInput={(event) => setReasoning(event.currentTarget.value)} />
          </label>
        </details>
        {calls.map((call, place) => (
          <CallEditor key={call.number} call={call} place={place} tools={tools} onChange={(values) => change(call.number, values)} onRemove={() => setCalls((before) => before.filter((each) => each.number !== call.number))} />
        ))}
        <button type="button" disabled={!tools.length} onClick={() => setCalls((before) => [...before, { number: Math.max(-1, ...before.map((call) => call.number)) + 1, name: tools[0]?.name ?? "", arguments: {}, isJson: false }])}>
          Add a call
        </button>
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            Save the correction
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

interface EditorProperties {
  call: EditedCall;
  place: number;
  tools: ToolSchema[];
  onChange: (values: Partial<EditedCall>) => void;
  onRemove: () => void;
}

function CallEditor({ call, place, tools, onChange, onRemove }: EditorProperties): VNode {
  const tool = tools.find((each) => each.name === call.name);
  return (
    <fieldset class="call-editor">
      <legend>Call {place + 1}</legend>
      <div class="call-editor-head">
        <select aria-label="Tool" value={call.name} onChange={(event) => onChange({ name: event.currentTarget.value })}>
          {!tool && <option value={call.name}>{call.name}</option>}
          {tools.map((each) => (
            <option value={each.name}>{each.name}</option>
          ))}
        </select>
        <label class="is-inline">
          <input type="checkbox" checked={call.isJson || !tool} disabled={!tool} onChange={(event) => onChange({ isJson: event.currentTarget.checked })} /> as JSON
        </label>
        <button type="button" class="quiet" onClick={onRemove}>
          Remove
        </button>
      </div>
      {tool?.description && <p class="hint">{tool.description}</p>}
      {call.isJson || !tool ? (
        <label class="field">
          Arguments
          <JsonField isRequired isObjectOnly rows={8} value={call.arguments} onChange={(value) => onChange({ arguments: isObject(value) ? value : {} })} />
        </label>
      ) : (
        <SchemaForm schema={tool.parameters} value={call.arguments} onChange={(value) => onChange({ arguments: value })} />
      )}
    </fieldset>
  );
}
