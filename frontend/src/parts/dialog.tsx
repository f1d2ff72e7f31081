/** A modal dialog: the browser's own, which keeps the focus in and gives it back. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface Properties {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  isWide?: boolean;
}

export function Dialog({ title, onClose, children, isWide = false }: Properties): VNode {
  const element = useRef<HTMLDialogElement>(null);
  const isGone = useRef(false);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      // The view is already another one: closing must not act on it.
      isGone.current = true;
      dialog?.close();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={isWide ? "dialog is-wide" : "dialog"}
      aria-labelledby={id}
      onClose={() => !isGone.current && onClose()}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-body">
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
