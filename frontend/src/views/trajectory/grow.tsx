/** Asks for continuations of an attempt from a message on. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { post } from "../../api";
import { plural } from "../../format";
import { Dialog } from "../../parts/dialog";
import { href } from "../../router";
import { attempt, useSession } from "../../session";
import type { Growth, ShownMessage, TrajectoryPage } from "../../types";
import { labelOf } from "./step";

interface Properties {
  run: string;
  page: TrajectoryPage;
  message: ShownMessage;
  onClose: () => void;
  onDone: () => void;
}

export function GrowDialog({ run, page, message, onClose, onDone }: Properties): VNode {
  const session = useSession();
  const [n, setN] = useState(1);
  const [model, setModel] = useState("");
  const [userModel, setUserModel] = useState("");
  const [temperature, setTemperature] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    await attempt(session, async () => {
      const body = { dataset: page.dataset, id: page.id, message: message.index, n, model: model || null, user_model: userModel || null, temperature: temperature === "" ? null : Number(temperature) };
      const growth = await post<Growth>(["runs", run, "growths"], body);
      session.say(`${plural(growth.n, "continuation")} asked for.`);
      onDone();
      onClose();
    });
    setBusy(false);
  };
  return (
    <Dialog title={`Grow on after ${labelOf(message).toLowerCase()}`} onClose={onClose}>
      <form class="form" onSubmit={(event) => void submit(event)}>
        <p class="hint">The world is brought to this point and the agent goes on from here. New branches appear beside this one. They are not part of the run's figures.</p>
        <p class="hint">
          Or go on yourself: <a href={href(["run", run, "play"], { dataset: page.dataset, task: page.task_id, from: page.id, message: message.index })}>play from here</a>
        </p>
        <label class="field">
          How many
          <input type="number" min="1" max="100" required autofocus value={n} onInput={(event) => setN(Number(event.currentTarget.value))} />
        </label>
        <label class="field">
          Model
          <input placeholder={page.model ?? "as before"} value={model} onInput={(event) => setModel(event.currentTarget.value)} />
        </label>
        {page.user_model && (
          <label class="field">
            Model of the user
            <input placeholder={page.user_model} value={userModel} onInput={(event) => setUserModel(event.currentTarget.value)} />
          </label>
        )}
        <label class="field">
          Temperature
          <input type="number" min="0" max="5" step="any" placeholder="as before" value={temperature} onInput={(event) => setTemperature(event.currentTarget.value)} />
        </label>
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            Grow {plural(n, "branch", "branches")}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
