/** Search within the conversation. What is found is painted by the browser (CSS highlights), so no markup is made of text. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../../keys";

const FOUND = "found";
const CURRENT = "found-current";
const canHighlight = typeof Highlight !== "undefined" && "highlights" in CSS;

export function StepSearch(): VNode {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [ranges, setRanges] = useState<Range[]>([]);
  const [place, setPlace] = useState(-1);
  useKeys("Search", [{ key: "/", words: "Search in this trajectory", act: () => field.current?.focus() }]);
  useEffect(() => {
    const timer = setTimeout(() => {
      const found = findText(text);
      setRanges(found);
      setPlace(found.length ? 0 : -1);
    }, 120);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    if (!canHighlight) return;
    CSS.highlights.set(FOUND, new Highlight(...ranges));
    return () => void CSS.highlights.delete(FOUND);
  }, [ranges]);
  useEffect(() => {
    const range = ranges[place];
    if (!range) return;
    reveal(range);
    if (canHighlight) CSS.highlights.set(CURRENT, new Highlight(range));
    return () => void (canHighlight && CSS.highlights.delete(CURRENT));
  }, [ranges, place]);
  const step = (by: number) => setPlace((before) => (ranges.length ? (before + by + ranges.length) % ranges.length : -1));
  return (
    <span class="step-search">
      <input
        ref={field}
        type="search"
        class="search"
        aria-label="Search in this trajectory"
        placeholder="Search  ( / )"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
          else if (event.key === "Escape") event.currentTarget.blur();
          else return;
          event.preventDefault();
        }}
      />
      <small class={text ? "number" : "unseen"} role="status">
        {text && (ranges.length ? `${place + 1} of ${ranges.length}` : "none")}
      </small>
    </span>
  );
}

function findText(text: string): Range[] {
  const wanted = text.trim().toLowerCase();
  const root = document.querySelector(".lanes");
  if (wanted.length < 2 || !root) return [];
  const found: Range[] = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const content = (node.nodeValue ?? "").toLowerCase();
    for (let at = content.indexOf(wanted); at >= 0; at = content.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      found.push(range);
      if (found.length >= 2000) return found;
    }
  }
  return found;
}

/** Opens what hides the text, and brings it into view. */
function reveal(range: Range): void {
  for (let element = range.startContainer.parentElement; element; element = element.parentElement) {
    if (element instanceof HTMLDetailsElement) element.open = true;
    if (element.classList.contains("is-clipped")) element.parentElement?.querySelector<HTMLElement>(".clip-more")?.click();
  }
  range.startContainer.parentElement?.scrollIntoView({ block: "center" });
}
