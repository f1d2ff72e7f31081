/** The drawing of a tree: drag or scroll to move, wheel with Ctrl or the buttons to zoom. */

import { Component, type VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { attemptName, count, reward, words } from "../../format";
import { OUTCOME_SIGNS, outcomeOf } from "../../parts/outcome";
import { useKeys } from "../../keys";
import { COLUMN, LABELS, LINE, type PlacedNode, type Range, shadeOf, type TreeLayout, worthOf } from "./layout";

const MARGIN = 28;
const LEAST_SCALE = 0.05;
const READABLE_SCALE = 0.72;
const MOST_SCALE = 2.5;
/** Pixels of a tree that stay in sight, however far it is moved. */
const LEAST_IN_SIGHT = 80;

interface View {
  x: number;
  y: number;
  scale: number;
}

interface Properties {
  layout: TreeLayout;
  task: string;
  selected: PlacedNode | undefined;
  path: readonly PlacedNode[];
  onSelect: (placed: PlacedNode) => void;
}

export function TreeCanvas({ layout, task, selected, path, onSelect }: Properties): VNode {
  const frame = useRef<HTMLDivElement>(null);
  const [view, setFreely] = useState<View>({ x: MARGIN, y: MARGIN, scale: 1 });
  /** Whether a person chose the view: a live tree that grows leaves it as it is. */
  const isChosen = useRef(false);
  const setView = (next: (before: View) => View) => {
    isChosen.current = true;
    setFreely((before) => keepInSight(next(before), layout, frame.current));
  };
  const drag = useRef<{ x: number; y: number; from: View; isMoved: boolean } | null>(null);

  const fit = (least = LEAST_SCALE) => {
    const box = frame.current;
    if (!box) return;
    const whole = Math.min(1.1, (box.clientWidth - 2 * MARGIN) / (layout.width + LABELS), (box.clientHeight - 2 * MARGIN) / layout.height);
    const scale = Math.max(least, whole);
    // A tree that does not fit is shown from its root on.
    const middle = whole < scale ? (layout.nodes.find((each) => !each.parent)?.y ?? 0) : layout.height / 2;
    setFreely({ x: MARGIN, y: box.clientHeight / 2 - middle * scale, scale });
  };
  const fitAll = () => {
    isChosen.current = true;
    fit();
  };
  useEffect(() => {
    if (!isChosen.current) fit(READABLE_SCALE);
  }, [layout]);
  useEffect(() => {
    const box = frame.current;
    if (!box || !selected) return;
    setView((before) => {
      const x = before.x + selected.x * before.scale;
      const y = before.y + selected.y * before.scale;
      const isIn = x > 10 && y > 10 && x < box.clientWidth - 60 && y < box.clientHeight - 20;
      return isIn ? before : { ...before, x: box.clientWidth / 2 - selected.x * before.scale, y: box.clientHeight / 2 - selected.y * before.scale };
    });
    // Not the node itself, which is another object whenever a live tree is read again.
  }, [selected?.node.id]);
  const zoom = (by: number, at?: { x: number; y: number }) =>
    setView((before) => {
      const scale = Math.max(LEAST_SCALE, Math.min(MOST_SCALE, before.scale * by));
      const box = frame.current;
      const center = at ?? { x: (box?.clientWidth ?? 0) / 2, y: (box?.clientHeight ?? 0) / 2 };
      const share = scale / before.scale;
      return { scale, x: center.x - (center.x - before.x) * share, y: center.y - (center.y - before.y) * share };
    });
  useEffect(() => {
    const box = frame.current;
    if (!box) return;
    // Not passive, so that the page does not move as well.
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) {
        const corner = box.getBoundingClientRect();
        zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - corner.left, y: event.clientY - corner.top });
      } else setView((before) => ({ ...before, x: before.x - event.deltaX, y: before.y - event.deltaY }));
    };
    box.addEventListener("wheel", onWheel, { passive: false });
    return () => box.removeEventListener("wheel", onWheel);
  }, [layout]);

  const step = (to: PlacedNode | undefined | null) => {
    if (to) onSelect(to);
  };
  const sibling = (by: number) => {
    const all = layout.nodes.filter((each) => each.depth === selected?.depth).sort((one, two) => one.y - two.y);
    step(selected ? all[all.indexOf(selected) + by] : layout.nodes[0]);
  };
  useKeys("Tree", [
    { key: "ArrowRight", words: "First child", act: () => step(selected ? selected.children[0] : layout.nodes[0]) },
    { key: "ArrowLeft", words: "Parent", act: () => step(selected?.parent) },
    { key: "ArrowDown", words: "Next node at this depth", act: () => sibling(1) },
    { key: "j", words: "Next node at this depth", isHidden: true, act: () => sibling(1) },
    { key: "ArrowUp", words: "Previous node at this depth", act: () => sibling(-1) },
    { key: "k", words: "Previous node at this depth", isHidden: true, act: () => sibling(-1) },
    { key: "+", words: "Zoom in", act: () => zoom(1.25) },
    { key: "-", words: "Zoom out", act: () => zoom(0.8) },
    { key: "0", words: "Show the whole tree", act: fitAll },
  ]);
  return (
    <div class="tree-frame">
      <div
        class="tree-canvas"
        ref={frame}
        onPointerDown={(event) => {
          if (event.button === 0) drag.current = { x: event.clientX, y: event.clientY, from: view, isMoved: false };
        }}
        onPointerMove={(event) => {
          const now = drag.current;
          if (!now) return;
          const [x, y] = [event.clientX - now.x, event.clientY - now.y];
          if (!now.isMoved && Math.hypot(x, y) < 4) return;
          if (!now.isMoved) event.currentTarget.setPointerCapture(event.pointerId);
          now.isMoved = true;
          setView(() => ({ ...now.from, x: now.from.x + x, y: now.from.y + y }));
        }}
        onPointerUp={() => (drag.current = null)}
        onPointerCancel={() => (drag.current = null)}
      >
        <svg width="100%" height="100%" role="tree" tabIndex={0} aria-label="Tree of attempts. Arrow keys move." aria-activedescendant={selected ? `node-${selected.node.id}` : undefined}>
          <g role="group" transform={`translate(${view.x.toFixed(1)} ${view.y.toFixed(1)}) scale(${view.scale.toFixed(3)})`}>
            <Drawing layout={layout} task={task} selected={selected} path={path} onSelect={onSelect} />
          </g>
        </svg>
      </div>
      <div class="tree-zoom" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" onClick={() => zoom(1.25)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => zoom(0.8)}>
          −
        </button>
        <button type="button" onClick={fitAll}>
          Fit
        </button>
      </div>
      <p class="tree-legend" aria-hidden="true">
        <span>reward {reward(layout.range[0])}</span>
        {[0, 1, 2, 3, 4, 5, 6].map((shade) => (
          <span class={`swatch is-shade-${shade}`} />
        ))}
        <span>{reward(layout.range[1])}</span>
      </p>
    </div>
  );
}

/** Moves a view back as far as a part of the tree is seen. */
function keepInSight(view: View, { width, height }: TreeLayout, box: HTMLElement | null): View {
  if (!box) return view;
  const keep = (start: number, size: number, whole: number) => {
    const least = Math.max(MARGIN, Math.min(LEAST_IN_SIGHT, size));
    return Math.max(least - size, Math.min(whole - least, start));
  };
  return { ...view, x: keep(view.x, width * view.scale, box.clientWidth), y: keep(view.y, height * view.scale, box.clientHeight) };
}

/** Not drawn again while the view only moves. */
class Drawing extends Component<Properties> {
  override shouldComponentUpdate(next: Readonly<Properties>): boolean {
    return next.layout !== this.props.layout || next.selected !== this.props.selected;
  }

  override render({ layout, task, selected, path, onSelect }: Properties): VNode {
    const onPath = new Set(path);
    return (
      <>
        {layout.nodes.map((placed) => placed.parent && <path class={`tree-edge is-shade-${shadeOf(placed.node, layout.range)}${onPath.has(placed) ? " is-on-path" : ""}`} d={edge(placed.parent, placed)} stroke-width={Math.min(7, 1.2 + Math.log2(placed.node.visits || 1))} />)}
        {layout.nodes.map((placed) => (
          <NodeMark placed={placed} task={task} range={layout.range} isSelected={placed === selected} isOnPath={onPath.has(placed)} onSelect={() => onSelect(placed)} />
        ))}
      </>
    );
  }
}

function edge(from: PlacedNode, to: PlacedNode): string {
  const middle = to.x - COLUMN * 0.62;
  return `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${to.x - COLUMN * 0.3} ${to.y}H${to.x}`;
}

interface NodeProperties {
  placed: PlacedNode;
  task: string;
  range: Range;
  isSelected: boolean;
  isOnPath: boolean;
  onSelect: () => void;
}

function NodeMark({ placed, task, range, isSelected, isOnPath, onSelect }: NodeProperties): VNode {
  const { node, x, y } = placed;
  const worth = worthOf(node);
  const outcome = node.leaf && outcomeOf(node.leaf);
  const reason = node.reason && node.reason !== "init" ? words(node.reason).slice(0, 14) : "";
  // Beside an attempt from which others were grown there is room for little.
  const isPassed = placed.children.length > 0;
  const leaf = node.leaf && [attemptName(node.leaf.id, task), worth !== null && reward(worth), !isPassed && node.leaf.author].filter(Boolean).join(" · ");
  const visits = !node.leaf && placed.children.length > 1 ? count(node.visits) : "";
  // Begins with what is seen, in its order, so that it can be said to a computer that listens.
  const seen = [leaf, reason, visits && `${visits} attempts below`].filter(Boolean).join(" ");
  const label = [seen, isPassed && node.leaf?.author, outcome, node.title, !node.leaf && worth !== null && `value ${reward(worth)}`].filter(Boolean).join(", ");
  return (
    <g id={`node-${node.id}`} role="treeitem" aria-selected={isSelected} aria-level={placed.depth + 1} aria-label={label} class={`tree-node is-shade-${shadeOf(node, range)}${isSelected ? " is-selected" : ""}${isOnPath ? " is-on-path" : ""}`} onClick={onSelect}>
      <title>{label}</title>
      <rect class="tree-hit" x={x - COLUMN * 0.32} y={y - LINE / 2} width={COLUMN * 0.32 + (node.leaf ? 96 : 14)} height={LINE} />
      {outcome ? <rect class="tree-mark" x={x - 8} y={y - 8} width="16" height="16" rx="3" /> : <circle class="tree-mark" cx={x} cy={y} r={placed.depth === 0 ? 7 : 5.5} />}
      {outcome && (
        <text class="tree-sign" x={x} y={y + 4} text-anchor="middle">
          {OUTCOME_SIGNS[outcome]}
        </text>
      )}{" "}
      {leaf && (
        <text class="tree-leaf" x={x + 12} y={isPassed ? y - 7 : y + 4}>
          {leaf}
        </text>
      )}{" "}
      {reason && (
        <text class="tree-reason" x={x - 12} y={y - 4} text-anchor="end">
          {reason}
        </text>
      )}{" "}
      {visits && (
        <text class="tree-visits" x={x + 9} y={y - 7}>
          {visits}
        </text>
      )}
    </g>
  );
}
