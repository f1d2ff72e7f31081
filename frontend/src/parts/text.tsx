/** Text of models, tools and people. It is always text: nothing in it becomes markup, and only http(s) addresses become links. */

import type { ComponentChildren, VNode } from "preact";
import { useId, useState } from "preact/hooks";
import { isWebAddress, plural } from "../format";

const ADDRESS = /https?:\/\/[^\s<>"'`)\]}]+/gi;

export function Text({ text }: { text: string }): VNode {
  const parts: ComponentChildren[] = [];
  let place = 0;
  for (const match of text.matchAll(ADDRESS)) {
    const address = match[0].replace(/[.,;:!?]+$/, "");
    parts.push(text.slice(place, match.index), <Link address={address} />);
    place = match.index + address.length;
  }
  parts.push(text.slice(place));
  return <>{parts}</>;
}

/** A link for http(s), otherwise the address as plain text. */
export function Link({ address, children }: { address: string; children?: ComponentChildren }): VNode {
  if (!isWebAddress(address)) return <span>{children ?? address}</span>;
  return (
    <a href={address} target="_blank" rel="noopener noreferrer">
      {children ?? address}
    </a>
  );
}

const MOST_LINES = 14;
const MOST_CHARACTERS = 1400;
/** Longer texts would slow the page down; the whole is in the copy. */
const MOST_DRAWN = 200_000;

export function LongText({ text, isMono = false }: { text: string; isMono?: boolean }): VNode {
  const drawn = text.length > MOST_DRAWN ? `${text.slice(0, MOST_DRAWN)}\n… ${plural(text.length - MOST_DRAWN, "character")} more` : text;
  const lines = countLines(drawn);
  const isLong = lines > MOST_LINES || drawn.length > MOST_CHARACTERS;
  return (
    <Clip isLong={isLong} label={lines > MOST_LINES ? plural(lines, "line") : plural(text.length, "character")}>
      <div class={isMono ? "text mono" : "text"}>
        <Text text={drawn} />
      </div>
    </Clip>
  );
}

/** Long content behind a fade, with a button that shows all of it. */
export function Clip({ isLong, label, children }: { isLong: boolean; label: string; children: ComponentChildren }): VNode {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  if (!isLong) return <>{children}</>;
  return (
    <div class="clip">
      <div id={id} class={isOpen ? "clip-body" : "clip-body is-clipped"}>
        {children}
      </div>
      <button type="button" class="quiet clip-more" aria-expanded={isOpen} aria-controls={id} onClick={() => setOpen(!isOpen)}>
        {isOpen ? "Show less" : `Show all (${label})`}
      </button>
    </div>
  );
}

function countLines(text: string): number {
  let lines = 1;
  for (let place = text.indexOf("\n"); place >= 0; place = text.indexOf("\n", place + 1)) lines += 1;
  return lines;
}

/** Text with the words that a search found. */
export function Snippet({ parts }: { parts: { text: string; hit: boolean }[] }): VNode {
  return <>{parts.map((part) => (part.hit ? <mark>{part.text}</mark> : part.text))}</>;
}
