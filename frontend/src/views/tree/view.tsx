/** All attempts at a task as one tree: where they branch, what became of each branch, and the words on the way. */

import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { useAnswer, useThrottled, useTitle } from "../../answers";
import { count, firstLine, plural, reward, words } from "../../format";
import { useKeys } from "../../keys";
import { useLive } from "../../live";
import { Empty, Loading, Problem } from "../../parts/notice";
import { Outcome } from "../../parts/outcome";
import { LongText } from "../../parts/text";
import { changed, go, href, runPath, trajectoryPath, treePath } from "../../router";
import { useSession } from "../../session";
import type { TreeNode, TreePage } from "../../types";
import { TreeCanvas } from "./canvas";
import { layOut, pathTo, type PlacedNode, worthOf } from "./layout";

interface Properties {
  run: string;
  dataset: string;
  task: string;
  query: URLSearchParams;
}

export function TreeView({ run, dataset, task, query }: Properties): VNode {
  useTitle(`Tree of ${task}`);
  const session = useSession();
  const answer = useAnswer<TreePage>(["runs", run, "tree"], new URLSearchParams({ dataset, task }));
  const reload = useThrottled(answer.reload, 1500);
  useLive(run, (kind) => {
    if (kind !== "index" && kind !== "marks") reload();
  });
  const layout = useMemo(() => answer.data && layOut(answer.data), [answer.data]);
  const leaf = query.get("leaf");
  const named = query.get("node");
  const selected = layout ? (named !== null ? layout.byId.get(named) : layout.nodes.find((each) => each.node.leaf?.id === leaf)) : undefined;
  const path = useMemo(() => pathTo(selected), [selected]);
  const select = (placed: PlacedNode) => go(href(treePath(run, dataset, task), changed(query, { node: placed.node.id, leaf: null })), { replace: true });
  const toRead = (placed: PlacedNode | undefined) => {
    const id = placed?.node.leaf?.id ?? placed?.node.first_leaf;
    return id ? href(trajectoryPath(run, { dataset, id }), { at: placed?.node.message ?? null }) : null;
  };
  useKeys("Tree", [
    {
      key: "Enter",
      words: "Read the trajectory",
      act: () => {
        const address = toRead(selected);
        if (address) go(address);
      },
    },
  ]);
  if (answer.error && !answer.data) return <Problem error={answer.error} retry={answer.reload} />;
  if (!layout || !answer.data) return <Loading what={`the tree of ${task}`} />;
  const leaves = layout.nodes.filter((each) => each.node.leaf);
  const solved = leaves.filter((each) => each.node.leaf?.success).length;
  return (
    <main class="tree-view">
      <header class="view-head">
        <div>
          <h1>{task}</h1>
          <p class="hint">
            <a href={href(runPath(run), { task })}>{plural(answer.data.leaves, "attempt")}</a>
            {` · ${count(solved)} solved · ${plural(layout.nodes.length, "node")} · ${dataset}`}
          </p>
        </div>
        {session.canWrite && (
          <div class="actions">
            <a class="button" href={href(["run", run, "play"], { dataset, task })}>
              Play this task
            </a>
          </div>
        )}
      </header>
      <div class="tree-parts">
        <TreeCanvas layout={layout} task={task} selected={selected} path={path} onSelect={select} />
        <aside class="tree-path" aria-label="Path to the chosen node">
          {selected ? <Path path={path} toRead={toRead} onSelect={select} /> : <Empty>Choose a node to read what leads to it.</Empty>}
        </aside>
      </div>
    </main>
  );
}

interface PathProperties {
  path: PlacedNode[];
  toRead: (placed: PlacedNode | undefined) => string | null;
  onSelect: (placed: PlacedNode) => void;
}

function Path({ path, toRead, onSelect }: PathProperties): VNode {
  const selected = path.at(-1);
  const siblings = selected?.parent?.children ?? [];
  const begins = siblings.map((each) => (each.node.text || each.node.title).replace(/\s+/g, " ").trim());
  const alike = sharedStart(begins);
  const address = toRead(selected);
  return (
    <>
      {siblings.length > 1 && (
        <section class="tree-siblings">
          <h2>{plural(siblings.length, "branch", "branches")} from here</h2>
          <div class="tree-siblings-row" tabIndex={0} role="group" aria-label="Branches side by side">
            {siblings.map((each, place) => (
              <button type="button" aria-pressed={each === selected} onClick={() => onSelect(each)}>
                <NodeHead node={each.node} />
                <span class="tree-sibling-text">{(alike ? "… " : "") + firstLine((begins[place] ?? "").slice(alike), 220)}</span>
              </button>
            ))}
          </div>
        </section>
      )}
      <section>
        <header class="tree-path-head">
          <h2>The path</h2>
          {address && (
            <a class="button primary" href={address}>
              Read it
            </a>
          )}
        </header>
        <ol class="tree-path-nodes">
          {path.map((each) => (
            <li class={each === selected ? "is-selected" : ""}>
              <button type="button" class="quiet tree-path-title" onClick={() => onSelect(each)}>
                <NodeHead node={each.node} />
              </button>
              <LongText text={each.node.text || each.node.title} />
            </li>
          ))}
        </ol>
      </section>
    </>
  );
}

/** How much to leave out at the beginning of several texts because all have it; some of it stays, to be recognized. */
function sharedStart(texts: string[]): number {
  const [first = "", ...others] = texts;
  let place = 0;
  while (place < first.length && others.every((text) => text[place] === first[place])) place += 1;
  const isWhole = texts.some((text) => text.length === place);
  return isWhole || place < 60 ? 0 : place - 30;
}

function NodeHead({ node }: { node: TreeNode }): VNode {
  const worth = worthOf(node);
  return (
    <span class="tree-node-head">
      {node.leaf ? <Outcome {...node.leaf} /> : <b>{words(node.kind)}</b>}
      {node.leaf && <span class="mono">{node.leaf.id}</span>}
      <small>{[node.steps > 0 && plural(node.steps, "step"), node.visits !== null && node.visits > 1 && plural(node.visits, "attempt"), worth !== null && `${node.leaf ? "reward" : "value"} ${reward(worth)}`].filter(Boolean).join(" · ")}</small>
      {node.reason && node.reason !== "init" && <span class="tag">{words(node.reason)}</span>}
      {node.author && <span class="tag is-person">by {node.author}</span>}
    </span>
  );
}
