/** What keys do now, and who one is. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { author, setAuthor } from "../api";
import { activeGroups, keysAreOn, setKeysOn } from "../keys";
import { Dialog } from "../parts/dialog";

const KEY_WORDS: Record<string, string> = { ArrowRight: "→", ArrowLeft: "←", ArrowUp: "↑", ArrowDown: "↓", PageDown: "PgDn", PageUp: "PgUp" };

export function HelpDialog({ version, onClose }: { version: string; onClose: () => void }): VNode {
  const [areOn, setOn] = useState(keysAreOn());
  const groups = activeGroups();
  const titles = [...new Set(groups.map((group) => group.title))];
  return (
    <Dialog title="Keyboard" onClose={onClose}>
      <div class="help">
        {titles.map((title) => (
          <section>
            <h3>{title}</h3>
            <dl>
              {groups
                .filter((group) => group.title === title)
                .flatMap((group) => group.bindings)
                .filter((binding) => !binding.isHidden)
                .map((binding) => (
                  <div>
                    <dt>
                      <kbd>{KEY_WORDS[binding.key] ?? binding.key}</kbd>
                    </dt>
                    <dd>{binding.words}</dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </div>
      <footer class="help-foot">
        <label class="is-inline">
          <input
            type="checkbox"
            checked={areOn}
            onChange={(event) => {
              setKeysOn(event.currentTarget.checked);
              setOn(event.currentTarget.checked);
            }}
          />{" "}
          Single letters act
        </label>
        <small class="hint">Rollout {version}</small>
      </footer>
    </Dialog>
  );
}

export function AuthorDialog({ onClose }: { onClose: () => void }): VNode {
  const [name, setName] = useState(author());
  return (
    <Dialog title="Your name" onClose={onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          setAuthor(name);
          onClose();
        }}
      >
        <label class="field">
          Marks, corrections and plays are kept with it
          <input autofocus required value={name} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <footer>
          <button type="submit" class="primary">
            Save
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
