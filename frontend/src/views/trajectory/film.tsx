/** A web trajectory as pictures: what a person sees, with the action drawn on it, beside what the model read. */

import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { imageAddress } from "../../api";
import { firstLine, isWebAddress } from "../../format";
import { useKeys } from "../../keys";
import { Link } from "../../parts/text";
import type { PageElement, ShownCall, ShownData, ShownMessage, TrajectoryPage } from "../../types";
import { CallView, errorWords } from "./step";

interface Seen {
  image: string | null;
  url: string | null;
  title: string | null;
  text: string;
  data: ShownData | null;
}

/** An answer of the agent with the page before it and the page after it. */
export interface Frame {
  message: ShownMessage;
  before: Seen | null;
  after: Seen | null;
}

export function framesOf(page: TrajectoryPage): Frame[] {
  let seen: Seen | null = null;
  const frames: Frame[] = [];
  for (const message of page.messages) {
    if (message.speaker === "agent") {
      const before = seen;
      for (const call of message.calls) seen = seenIn({ ...call, text: call.result ?? "" }) ?? seen;
      frames.push({ message, before, after: seen === before ? null : seen });
    } else {
      seen = seenIn(message) ?? seen;
    }
  }
  return frames.some((frame) => frame.before?.image || frame.after?.image) ? frames : [];
}

function seenIn(shown: { images: string[]; url: string | null; title: string | null; text: string; data?: ShownData | null }): Seen | null {
  const image = shown.images.at(-1) ?? null;
  return image === null && shown.url === null ? null : { image, url: shown.url, title: shown.title, text: shown.text, data: shown.data ?? null };
}

interface Properties {
  run: string;
  frames: Frame[];
  at: number | null;
  onSelect: (message: number) => void;
}

export function Film({ run, frames, at, onSelect }: Properties): VNode {
  const found = frames.findLastIndex((frame) => at !== null && frame.message.index <= at);
  const place = Math.max(0, found);
  const [isAfter, setAfter] = useState(false);
  const stage = useRef<HTMLElement>(null);
  const frame = frames[place];
  const move = (by: number) => {
    const next = frames[place + by];
    if (next) {
      setAfter(false);
      onSelect(next.message.index);
    }
  };
  const fill = () => {
    if (document.fullscreenElement) void document.exitFullscreen();
    else void stage.current?.requestFullscreen();
  };
  useKeys("Pictures", [
    { key: "ArrowRight", words: "Next picture", act: () => move(1) },
    { key: "ArrowLeft", words: "Previous picture", act: () => move(-1) },
    { key: "a", words: "Before or after the action", act: () => setAfter(!isAfter) },
    { key: "F", words: "Full screen", act: fill },
  ]);
  if (!frame) return <p class="notice">There are no pictures.</p>;
  const seen = (isAfter ? frame.after : frame.before) ?? frame.before ?? frame.after;
  const chosen = isAfter ? [] : targetsOf(frame);
  return (
    <section class="film" ref={stage} aria-label="Pictures">
      <Strip run={run} frames={frames} place={place} onSelect={onSelect} />
      <div class="film-stage">
        <div class="film-person">
          <div class="film-line">
            <span class="film-url mono">{seen?.url ? isWebAddress(seen.url) ? <Link address={seen.url} /> : seen.url : "no page"}</span>
            <div class="actions">
              <button type="button" class="quiet" aria-label="Previous picture" disabled={place === 0} onClick={() => move(-1)}>
                ‹
              </button>
              <span class="number">
                {place + 1} <small>of {frames.length}</small>
              </span>
              <button type="button" class="quiet" aria-label="Next picture" disabled={place === frames.length - 1} onClick={() => move(1)}>
                ›
              </button>
              <button type="button" class="chip" aria-pressed={isAfter} disabled={!frame.after} title={frame.after ? undefined : "The action led to no new page"} onClick={() => setAfter(!isAfter)}>
                after the action
              </button>
              <button type="button" class="quiet" onClick={fill}>
                Full screen
              </button>
            </div>
          </div>
          {seen?.image ? <Picture run={run} name={seen.image} title={seen.title ?? "page"} marks={isAfter ? [] : drawingsOf(frame)} /> : <p class="notice">No picture of this page.</p>}
        </div>
        <div class="film-model">
          <div class="film-action">
            <span class="speaker">Step {frame.message.step}</span>
            {frame.message.calls.map((call) => (
              <>
                <CallView call={call} />
                {call.error_kind && (
                  <p class="bad">
                    <span class="tag is-error">{errorWords(call.error_kind)}</span> {firstLine(call.result ?? "", 200)}
                  </p>
                )}
              </>
            ))}
            {frame.message.text && <p class="text">{frame.message.text}</p>}
            {frame.message.reasoning && <p class="text hint">{frame.message.reasoning}</p>}
          </div>
          <h3>What the model read</h3>
          <ModelText key={`${place}${isAfter}`} seen={seen} chosen={chosen} />
        </div>
      </div>
    </section>
  );
}

const hasError = (frame: Frame): boolean => frame.message.calls.some((call) => call.error_kind);

function Strip({ run, frames, place, onSelect }: { run: string; frames: Frame[]; place: number; onSelect: (message: number) => void }): VNode {
  const strip = useRef<HTMLOListElement>(null);
  useEffect(() => {
    const item = strip.current?.children[place];
    if (item instanceof HTMLElement && strip.current) strip.current.scrollLeft = item.offsetLeft - strip.current.clientWidth / 2 + item.clientWidth / 2;
  }, [place]);
  return (
    <ol class="film-strip" ref={strip}>
      {frames.map((frame, each) => (
        <li>
          <button type="button" aria-current={each === place ? "step" : undefined} onClick={() => onSelect(frame.message.index)}>
            {frame.before?.image ? <img src={imageAddress(run, frame.before.image)} alt="" loading="lazy" /> : <span class="film-blank" />}
            <span class={hasError(frame) ? "bad" : ""}>
              {hasError(frame) && "✕ "}
              {frame.message.step} {frame.message.calls.map((call) => call.name).join(", ") || "says"}
            </span>
          </button>
        </li>
      ))}
    </ol>
  );
}

/** The text that the model was given, with the element that it chose marked. */
function ModelText({ seen, chosen }: { seen: Seen | null; chosen: PageElement[] }): VNode {
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const line = box.current?.querySelector<HTMLElement>("mark");
    if (line && box.current) box.current.scrollTop = line.offsetTop - box.current.clientHeight / 2;
  }, []);
  const text = seen?.text ?? "";
  const numbers = new Set(chosen.flatMap((element) => (element.number ? [`[${element.number}]`] : [])));
  return (
    <pre class="film-text" ref={box} tabIndex={0}>
      {text ? text.split("\n").map((line) => (numbers.has(/^\s*(\[\d+\])/.exec(line)?.[1] ?? "") ? <mark>{`${line}\n`}</mark> : `${line}\n`)) : "Only the picture."}
    </pre>
  );
}

type Box = readonly [number, number, number, number];
type Point = readonly [number, number];

interface Drawing {
  box?: Box | undefined;
  point?: Point | undefined;
  to?: Point | undefined;
  label: string;
}

function elementOf(data: ShownData | null, number: unknown): PageElement | undefined {
  return typeof number === "number" ? data?.elements?.find((element, place) => (element.number ?? place + 1) === number) : undefined;
}

function targetsOf(frame: Frame): PageElement[] {
  return frame.message.calls.flatMap((call) => elementOf(frame.before?.data ?? null, call.arguments?.element) ?? []);
}

function drawingsOf(frame: Frame): Drawing[] {
  return frame.message.calls.flatMap((call) => drawingOf(call, frame.before?.data ?? null) ?? []);
}

/** Where on the picture a call acts: on an element's box or at a point, with a second place where it drags. */
function drawingOf(call: ShownCall, data: ShownData | null): Drawing | null {
  const values = call.arguments ?? {};
  const box = boxOf(elementOf(data, values.element));
  const target = boxOf(elementOf(data, values.to_element));
  const point = pointOf(values.x, values.y) ?? (box && middle(box));
  const from = target ? middle(target) : point;
  const isMoved = typeof values.right === "number" || typeof values.down === "number";
  const moved = isMoved && from ? ([from[0] + Number(values.right ?? 0), from[1] + Number(values.down ?? 0)] as const) : undefined;
  const to = pointOf(values.to_x, values.to_y) ?? moved ?? (target && middle(target));
  const typed = typeof values.text === "string" ? `: ${values.text}` : typeof values.option === "string" ? `: ${values.option}` : typeof values.direction === "string" ? ` ${values.direction}` : "";
  if (!box && !point && !to) return call.name === "scroll" ? { label: `scroll${typed}` } : null;
  return { box, point, to, label: `${call.name}${typed}` };
}

function boxOf(element: PageElement | undefined): Box | undefined {
  const box = element?.box;
  return box && box.length === 4 ? (box as unknown as Box) : undefined;
}

function pointOf(x: unknown, y: unknown): Point | undefined {
  return typeof x === "number" && typeof y === "number" ? [x, y] : undefined;
}

const middle = ([x, y, width, height]: Box): Point => [x + width / 2, y + height / 2];

function Picture({ run, name, title, marks }: { run: string; name: string; title: string; marks: Drawing[] }): VNode {
  const [size, setSize] = useState<Point | null>(null);
  return (
    <div class="picture">
      <img src={imageAddress(run, name)} alt={`Screenshot: ${title}`} onLoad={(event) => setSize([event.currentTarget.naturalWidth, event.currentTarget.naturalHeight])} />
      {size && marks.length > 0 && (
        <svg viewBox={`0 0 ${size[0]} ${size[1]}`} role="img" aria-label={marks.map((mark) => mark.label).join(", ")}>
          {marks.map((mark) => (
            <Mark mark={mark} size={size} />
          ))}
        </svg>
      )}
    </div>
  );
}

function Mark({ mark, size }: { mark: Drawing; size: Point }): VNode {
  const { box, point, to } = mark;
  const at: Point = box ? [box[0], box[1] + box[3] + 18] : point ? [point[0] + 16, point[1] + 5] : [16, size[1] - 16];
  const label = mark.label.length > 60 ? `${mark.label.slice(0, 59)}…` : mark.label;
  const width = label.length * 7.6 + 14;
  const x = Math.max(4, Math.min(at[0], size[0] - width - 4));
  const y = Math.min(at[1], size[1] - 8);
  return (
    <g class="drawn">
      {box && <rect class="drawn-box" x={box[0] - 3} y={box[1] - 3} width={box[2] + 6} height={box[3] + 6} rx="4" />}
      {point && <circle class="drawn-ring" cx={point[0]} cy={point[1]} r="11" />}
      {point && <circle class="drawn-dot" cx={point[0]} cy={point[1]} r="3.5" />}
      {point && to && <path class="drawn-line" d={arrow(point, to)} />}
      <rect class="drawn-plate" x={x} y={y - 14} width={width} height="20" rx="4" />
      <text class="drawn-label" x={x + 7} y={y}>
        {label}
      </text>
    </g>
  );
}

/** A line with a head of two strokes. */
function arrow([x, y]: Point, [toX, toY]: Point): string {
  const angle = Math.atan2(toY - y, toX - x);
  const stroke = (turn: number) => `L${(toX - 14 * Math.cos(angle + turn)).toFixed(1)} ${(toY - 14 * Math.sin(angle + turn)).toFixed(1)}`;
  return `M${x} ${y}L${toX} ${toY}${stroke(0.5)}M${toX} ${toY}${stroke(-0.5)}`;
}
