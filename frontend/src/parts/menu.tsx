/** A button that opens a list of actions. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

export interface MenuItem {
  words: ComponentChildren;
  act: () => void;
}

export function Menu({ label, items }: { label: ComponentChildren; items: MenuItem[] }): VNode {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  useEffect(() => {
    if (!isOpen) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const close = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [isOpen]);
  const shut = () => {
    setOpen(false);
    box.current?.querySelector("button")?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return;
    if (event.key === "Escape") shut();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const all = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
      const place = all.indexOf(document.activeElement as HTMLElement) + (event.key === "ArrowDown" ? 1 : -1);
      all[(place + all.length) % all.length]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu" ref={box} onKeyDown={onKeyDown}>
      <button type="button" aria-haspopup="menu" aria-expanded={isOpen} aria-controls={id} onClick={() => setOpen(!isOpen)}>
        {label} <span aria-hidden="true">▾</span>
      </button>
      {isOpen && (
        <div role="menu" id={id} class="menu-items">
          {items.map((item) => (
            <button
              type="button"
              role="menuitem"
              onClick={() => {
                shut();
                item.act();
              }}
            >
              {item.words}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
