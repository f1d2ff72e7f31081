/** Places of a tree's nodes: depth to the right, one line for each leaf, parents in the middle of their children.
 *
 * Linear in the number of nodes; 500 of them take a millisecond. */

import type { TreeNode, TreePage } from "../../types";

export const COLUMN = 106;
export const LINE = 25;
/** The room for the labels of the last nodes. */
export const LABELS = 226;

export interface PlacedNode {
  node: TreeNode;
  parent: PlacedNode | null;
  children: PlacedNode[];
  depth: number;
  x: number;
  y: number;
}

/** The least and the most that a node is worth, with 0 and 1 always between them. */
export type Range = readonly [number, number];

export interface TreeLayout {
  nodes: PlacedNode[];
  byId: Map<string, PlacedNode>;
  /** To the middle of the last nodes; their labels are right of it. */
  width: number;
  height: number;
  range: Range;
}

export function layOut(page: TreePage): TreeLayout {
  const byId = new Map<string, PlacedNode>();
  for (const node of page.nodes) byId.set(node.id, { node, parent: null, children: [], depth: 0, x: 0, y: 0 });
  const roots: PlacedNode[] = [];
  for (const placed of byId.values()) {
    const parent = placed.node.parent === null ? undefined : byId.get(placed.node.parent);
    if (parent) {
      placed.parent = parent;
      parent.children.push(placed);
    } else roots.push(placed);
  }
  let line = 0;
  let deepest = 0;
  // Without recursion: a chain may be deeper than the stack.
  const stack: { placed: PlacedNode; isDone: boolean }[] = roots.reverse().map((placed) => ({ placed, isDone: false }));
  while (stack.length) {
    const { placed, isDone } = stack.pop() as { placed: PlacedNode; isDone: boolean };
    if (isDone) {
      const first = placed.children[0] as PlacedNode;
      const last = placed.children.at(-1) as PlacedNode;
      placed.y = (first.y + last.y) / 2;
      continue;
    }
    placed.depth = placed.parent ? placed.parent.depth + 1 : 0;
    placed.x = placed.depth * COLUMN;
    deepest = Math.max(deepest, placed.depth);
    if (placed.children.length) {
      stack.push({ placed, isDone: true });
      for (const child of [...placed.children].reverse()) stack.push({ placed: child, isDone: false });
    } else {
      placed.y = line * LINE;
      line += 1;
    }
  }
  return { nodes: [...byId.values()], byId, width: deepest * COLUMN, height: Math.max(1, line) * LINE, range: rangeOf(page.nodes) };
}

export function pathTo(placed: PlacedNode | undefined): PlacedNode[] {
  const path: PlacedNode[] = [];
  for (let each: PlacedNode | null | undefined = placed; each; each = each.parent) path.unshift(each);
  return path;
}

/** What a node is worth: the mean reward of the attempts below it. Where an attempt ends it is that attempt's own reward: a
 * correction has none, whatever was grown from it. */
export function worthOf(node: TreeNode): number | null {
  return node.leaf ? node.leaf.reward : node.value;
}

function rangeOf(nodes: readonly TreeNode[]): Range {
  let [low, high] = [0, 1];
  for (const node of nodes) {
    const worth = worthOf(node) ?? low;
    low = Math.min(low, worth);
    high = Math.max(high, worth);
  }
  return [low, high];
}

/** One of seven colours from bad to good; `none` where nothing is known. */
export function shadeOf(node: TreeNode, [low, high]: Range): string {
  const worth = worthOf(node);
  return worth === null ? "none" : String(Math.round(((worth - low) / (high - low)) * 6));
}
