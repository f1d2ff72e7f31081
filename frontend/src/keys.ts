/** Keys that a view answers to. The help lists what is registered, so that it cannot be wrong.
 *
 * Single letters can be turned off (WCAG 2.1.4), and never act while somebody types or a dialog is open. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { store, stored } from "./api";

export interface KeyBinding {
  key: string;
  words: string;
  act: (event: KeyboardEvent) => void;
  /** Listed in the help under the first binding that has the same words. */
  isHidden?: boolean;
}

export interface KeyGroup {
  title: string;
  bindings: KeyBinding[];
}

const OFF = "rollout-keys-off";
const groups: { current: KeyGroup }[] = [];

export function keysAreOn(): boolean {
  return stored(OFF) === null;
}

export function setKeysOn(isOn: boolean): void {
  store(OFF, isOn ? null : "1");
}

/** The groups that act now, the innermost view first. */
export function activeGroups(): KeyGroup[] {
  return groups.map((each) => each.current).reverse();
}

export function useKeys(title: string, bindings: KeyBinding[]): void {
  const group = useRef<KeyGroup>({ title, bindings });
  group.current = { title, bindings };
  // Before the view is painted: who sees it may press a key at once.
  useLayoutEffect(() => {
    groups.push(group);
    return () => {
      groups.splice(groups.indexOf(group), 1);
    };
  }, []);
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button", "submit"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (event.key.length === 1 && !keysAreOn()) return;
  for (const group of activeGroups()) {
    const found = group.bindings.find((binding) => binding.key === event.key);
    if (found) {
      event.preventDefault();
      found.act(event);
      return;
    }
  }
}

document.addEventListener("keydown", onKey);
