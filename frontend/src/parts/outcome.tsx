/** How an attempt came out, by sign, word and colour, so that no one of them is needed alone. */

import type { VNode } from "preact";
import { words } from "../format";

interface Judged {
  success: boolean | null;
  scored?: boolean;
  status: string | null;
}

export type OutcomeName = "solved" | "unsolved" | "unscored" | "failed";

export function outcomeOf({ success, scored = true, status }: Judged): OutcomeName {
  if (status === "failed" || status === "cut") return "failed";
  if (!scored) return "unscored";
  return success ? "solved" : "unsolved";
}

export const OUTCOME_SIGNS: Record<OutcomeName, string> = { solved: "✓", unsolved: "✕", unscored: "○", failed: "!" };
const WORDS: Record<OutcomeName, string> = { solved: "solved", unsolved: "not solved", unscored: "not scored", failed: "failed" };

export function Outcome({ isShort = false, ...judged }: Judged & { isShort?: boolean }): VNode {
  const name = outcomeOf(judged);
  const text = name === "failed" && judged.status === "cut" ? "cut" : WORDS[name];
  return (
    <span class={`outcome is-${name}`}>
      <span aria-hidden="true">{OUTCOME_SIGNS[name]}</span>
      <span class={isShort ? "unseen" : ""}>{text}</span>
    </span>
  );
}

export function StatusWords({ status, stopReason }: { status: string; stopReason: string }): VNode {
  return (
    <span>
      {words(stopReason)}
      {status !== "completed" && <span class={`tag is-${status}`}>{status}</span>}
    </span>
  );
}
