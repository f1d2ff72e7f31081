/** The time of an attempt as a bar to choose a step in, with the size of what the model was sent as a curve over it. */

import type { ComponentChildren, VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { store, stored } from "../../api";
import { useWidth } from "../../answers";
import { duration, short } from "../../format";
import { hasUser } from "./lanes";
import type { Span, SpanKind, TrajectoryPage } from "../../types";

const BAR = 15;
const CURVE = 18;
/** The room that a label in the bar needs. */
const LABEL: Partial<Record<Drawn, number>> = { opening: 96, ending: 160 };
/** Steps that took less than this have no times worth drawing. */
const LEAST_SECONDS = 0.2;
const WORDS: Record<Drawn, string> = {
  opening: "opening",
  model: "model",
  tool: "tools",
  user: "user",
  wait: "waiting",
  retry: "retries",
  error: "errors",
  ending: "scoring and closing",
};
const MODE = "rollout-time-bar";

type Drawn = SpanKind | "error";

interface Placed extends Omit<Span, "kind"> {
  kind: Drawn;
  left: number;
  width: number;
  /** The message of the conversation that it belongs to: a result belongs to its call. */
  step: number;
}

interface Properties {
  page: TrajectoryPage;
  at: number | null;
  /** Whether the lanes' heads are below, which then are the legend as well. */
  hasLanes: boolean;
  onSelect: (message: number) => void;
}

export function TimeBar({ page, at, hasLanes, onSelect }: Properties): VNode | null {
  const [attach, width] = useWidth<HTMLDivElement>();
  const whole = page.spans.reduce((end, span) => Math.max(end, span.start + span.seconds), 0);
  const worked = page.spans.reduce((sum, span) => (isStep(span) ? sum + span.seconds : sum), 0);
  const hasTimes = worked >= LEAST_SECONDS;
  const [isByTime, setByTime] = useState(stored(MODE) !== "steps");
  const byTime = hasTimes && isByTime;
  const owners = useMemo(() => ownersOf(page), [page]);
  const order = useMemo(() => page.messages.map((message) => message.index), [page]);
  const placed = useMemo(() => (byTime ? placeByTime(page.spans, whole, owners) : placeByStep(page, owners)), [page, byTime]);
  if (!placed.length) return null;
  const kinds = (Object.keys(WORDS) as Drawn[]).flatMap((kind) => {
    const seconds = page.spans.filter((span) => span.kind === kind).reduce((sum, span) => sum + span.seconds, 0);
    return isStep({ kind }) && placed.some((span) => span.kind === kind) ? [{ kind, seconds }] : [];
  });
  const current = at === null ? -1 : order.indexOf(at);
  const most = Math.max(1, ...page.context.map((each) => each.prompt_tokens));
  const curve = page.context.flatMap((each) => {
    const span = placed.find((one) => one.step === each.message && one.kind === "model") ?? placed.find((one) => one.step === each.message);
    return span ? [[span.left, CURVE - 3 - ((CURVE - 5) * each.prompt_tokens) / most] as const] : [];
  });
  const top = curve.length > 1 ? CURVE : 3;
  const height = top + BAR + 3;
  const choose = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    const found = placed.find((span) => share <= span.left + span.width) ?? placed.at(-1);
    if (found) onSelect(found.step);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -order.length, End: order.length }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const next = order[Math.max(0, Math.min(order.length - 1, current + by))];
    if (next !== undefined) onSelect(next);
  };
  const now = page.messages[current];
  const x = (share: number) => share * width;
  return (
    <div class="time">
      <div class="time-frame" ref={attach} role="slider" tabIndex={0} aria-label="Time of the attempt" aria-valuemin={1} aria-valuemax={order.length} aria-valuenow={current + 1 || 1} aria-valuetext={now ? `${now.step !== null ? `step ${now.step}` : now.speaker}${now.seconds ? `, ${duration(now.seconds)}` : ""}` : "nothing chosen"} onClick={choose} onKeyDown={onKeyDown}>
        <svg width={width} height={height} aria-hidden="true">
          {curve.length > 1 && (
            <g class="context-curve">
              <path d={stepPath(curve, width)} />
              <text x={width - 2} y={9} text-anchor="end">
                context {short(most)}
              </text>
            </g>
          )}
          {placed.map((span) => (
            <rect class={`span is-${span.kind}${span.step === at && isStep(span) ? " is-current" : ""}`} x={x(span.left)} y={top} width={Math.max(1, x(span.width) - (byTime ? 0 : 1))} height={BAR}>
              <title>{`${WORDS[span.kind]} ${duration(span.seconds)} ${span.label}`}</title>
            </rect>
          ))}
          {placed.map(
            (span) =>
              x(span.width) > (LABEL[span.kind] ?? Infinity) && (
                <text class="span-label" x={x(span.left) + 6} y={top + BAR - 4}>
                  {WORDS[span.kind]} {duration(span.seconds)}
                </text>
              ),
          )}
        </svg>
      </div>
      <Legend kinds={kinds} hasLanes={hasLanes} hasUser={hasUser(page.messages)} hasTimes={hasTimes}>
        {hasTimes && (
          <button
            type="button"
            class="quiet small"
            onClick={() => {
              store(MODE, isByTime ? "steps" : null);
              setByTime(!isByTime);
            }}
          >
            {isByTime ? "Widen short steps" : "Widths by time"}
          </button>
        )}
      </Legend>
    </div>
  );
}

/** What is before the first message and after the last is no step. */
function isStep({ kind }: { kind: Drawn }): boolean {
  return kind !== "opening" && kind !== "ending";
}

interface LegendProperties {
  kinds: { kind: Drawn; seconds: number }[];
  hasLanes: boolean;
  hasUser: boolean;
  hasTimes: boolean;
  children: ComponentChildren;
}

const LANES = [
  { kind: "user", title: "User" },
  { kind: "model", title: "Agent" },
  { kind: "tool", title: "Tools and data" },
] as const;

/** What the colours mean and how long each took; above lanes, each stands over its lane. */
function Legend({ kinds, hasLanes, hasUser, hasTimes, children }: LegendProperties): VNode {
  const seconds = (kind: Drawn) => kinds.find((each) => each.kind === kind)?.seconds ?? 0;
  const took = (kind: Drawn) => hasTimes && seconds(kind) > 0 && <small>{duration(seconds(kind))}</small>;
  const others = kinds.filter(({ kind }) => !hasLanes || !LANES.some((lane) => lane.kind === kind));
  const rest = (
    <>
      {others.map(({ kind }) => (
        <span class={`legend is-${kind}`}>
          {WORDS[kind]} {took(kind)}
        </span>
      ))}
      {children}
    </>
  );
  if (!hasLanes) return <div class="time-legend">{rest}</div>;
  return (
    <div class={hasUser ? "lane-heads" : "lane-heads has-no-user"}>
      {LANES.map(({ kind, title }) => (
        <span class={`legend lane-head is-${kind}`}>
          {title} {took(kind)}
        </span>
      ))}
      <span class="lane-rest">{rest}</span>
    </div>
  );
}

function stepPath(points: readonly (readonly [number, number])[], width: number): string {
  const [first, ...rest] = points;
  if (!first) return "";
  const last = points.at(-1) ?? first;
  return `M${(first[0] * width).toFixed(1)} ${first[1].toFixed(1)}${rest.map(([left, y]) => `H${(left * width).toFixed(1)}V${y.toFixed(1)}`).join("")}H${width}L${width} ${last[1].toFixed(1)}`;
}

/** For each message, results included, the shown message that it belongs to. */
function ownersOf(page: TrajectoryPage): (message: number) => number {
  const shown = page.messages.map((message) => message.index);
  return (message) => shown.findLast((index) => index <= message) ?? message;
}

function placeByTime(spans: Span[], whole: number, owner: (message: number) => number): Placed[] {
  return spans.map((span) => ({ ...span, left: span.start / whole, width: span.seconds / whole, step: owner(span.message) }));
}

/** Each message gets the same width; within it, the model comes before its calls. */
function placeByStep(page: TrajectoryPage, owner: (message: number) => number): Placed[] {
  const shown = page.messages.filter((message) => message.speaker !== "system");
  const width = 1 / Math.max(1, shown.length);
  const spans = new Map<number, Span[]>();
  for (const span of page.spans) spans.set(owner(span.message), [...(spans.get(owner(span.message)) ?? []), span]);
  return shown.flatMap((message, place) => {
    const isAgent = message.speaker === "agent";
    const kinds: SpanKind[] = isAgent ? ["model", ...message.calls.map((): SpanKind => "tool")] : message.speaker === "user" ? ["user"] : ["tool"];
    const own = spans.get(message.index) ?? [];
    const part = width / kinds.length;
    return kinds.map((kind, each) => {
      const seconds = own.filter((span) => span.kind === kind).reduce((sum, span) => sum + span.seconds, 0);
      const call = isAgent && each > 0 ? message.calls[each - 1] : undefined;
      return { message: message.index, kind: call?.error_kind ? ("error" as const) : kind, start: 0, seconds, label: call?.name ?? "", left: place * width + each * part, width: part, step: message.index };
    });
  });
}
