/** How far a run came: solved, not solved and failed as parts of what was planned. */

import type { VNode } from "preact";
import { count, percent } from "../format";
import type { RunRow } from "../types";

export function Progress({ row }: { row: RunRow }): VNode {
  // A failed attempt has not finished: `--resume` makes it again.
  const whole = Math.max(row.planned ?? 0, row.finished + row.failed, 1);
  const unsolved = Math.max(0, row.finished - row.solved);
  const parts = [
    ["solved", row.solved],
    ["unsolved", unsolved],
    ["failed", row.failed],
  ] as const;
  let left = 0;
  const text = `${count(row.finished)}${row.planned === null ? "" : ` of ${count(row.planned)}`} finished, ${count(row.solved)} solved, ${count(row.failed)} failed`;
  return (
    <svg class="progress" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={text}>
      <title>{text}</title>
      <rect class="progress-rest" width="100" height="6" />
      {parts.map(([name, value]) => {
        const width = (100 * value) / whole;
        const rect = <rect class={`fill-${name}`} x={left} width={width} height="6" />;
        left += width;
        return rect;
      })}
    </svg>
  );
}

export function Solved({ solved, scored }: { solved: number; scored: number }): VNode {
  return (
    <span class="number">
      {percent(solved, scored)} <small>{`${count(solved)}/${count(scored)}`}</small>
    </span>
  );
}
