/** One trajectory: what happened, in lanes, and everything that is on record of it. */

import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAnswer, useThrottled, useTitle } from "../../answers";
import { useKeys } from "../../keys";
import { useLive } from "../../live";
import { Loading, Problem } from "../../parts/notice";
import { Tabs } from "../../parts/tabs";
import { report } from "../../report";
import { changed, go, href, listQuery, trajectoryPath, treePath } from "../../router";
import { useSession } from "../../session";
import type { Growth, Key, Neighbours, TrajectoryPage } from "../../types";
import { GrowthStatus } from "../run_panels";
import { CorrectDialog } from "./correct";
import { DataPanel } from "./data";
import { GrowDialog } from "./grow";
import { Head } from "./head";
import { Lanes } from "./lanes";
import { MarkDialog, useMarks } from "./marks";
import { Film, framesOf } from "./film";
import type { StepActions } from "./step";
import { SentDialog } from "./sent";
import { SetupPanel } from "./setup";
import { StepSearch } from "./search";
import { TimeBar } from "./timebar";
import { TokensPanel } from "./tokens";

/** A list that is walked through instead of the table, such as the review queue. */
export interface Walk {
  path: string[];
  move: (by: number) => void;
}

interface Properties {
  run: string;
  dataset: string;
  id: string;
  query: URLSearchParams;
  walk?: Walk;
}

export function TrajectoryView({ run, dataset, id, query, walk }: Properties): VNode {
  const key = useMemo(() => new URLSearchParams({ dataset, id }), [dataset, id]);
  const page = useAnswer<TrajectoryPage>(["runs", run, "trajectory"], key);
  const reload = useThrottled(page.reload, 500);
  useTitle(id);
  useLive(report ? null : run, (kind, data) => {
    if (kind === "marks" && concerns(data, dataset, id)) reload();
    if (kind === "growth" || kind === "poll") reload();
  });
  if (page.error && !page.data) return <Problem error={page.error} retry={page.reload} />;
  if (!page.data) return <Loading what={id} />;
  return <Loaded key={`${dataset}/${id}`} run={run} page={page.data} query={query} reload={page.reload} walk={walk} />;
}

const PANELS = ["conversation", "pictures", "setup", "data", "tokens"];

function concerns(data: unknown, dataset: string, id: string): boolean {
  if (typeof data !== "object" || data === null || !("id" in data)) return true;
  const key = data as Partial<Key>;
  return key.id === id && (key.dataset === undefined || key.dataset === dataset);
}

interface LoadedProperties {
  run: string;
  page: TrajectoryPage;
  query: URLSearchParams;
  reload: () => void;
  walk: Walk | undefined;
}

function Loaded({ run, page, query, reload, walk }: LoadedProperties): VNode {
  const session = useSession();
  const path = walk?.path ?? trajectoryPath(run, page);
  const list = listQuery(query);
  const neighbours = useNeighbours(run, walk ? null : page, list);
  const frames = useMemo(() => framesOf(page), [page]);
  const steps = useMemo(() => page.messages.map((message) => message.index), [page]);
  const [areOpen, setOpen] = useState(false);
  const [dialog, setDialog] = useState<{ what: "correct" | "grow"; message: number } | null>(null);
  const marks = useMarks(run, page, reload);
  const growths = useAnswer<Growth[]>(report || !session.me.can_grow ? null : ["runs", run, "growths"]);
  const ours = growths.data?.filter((growth) => growth.dataset === page.dataset && growth.id === page.id) ?? [];
  // A growth publishes five events a second, and an answer goes through all attempts of all growths.
  const reloadGrowths = useThrottled(growths.reload, 1000);
  useLive(report ? null : run, (kind) => {
    if (kind === "growth" || kind === "poll") reloadGrowths();
  });

  const panel = PANELS.find((each) => each === query.get("panel")) ?? "conversation";
  // `step` counts answers of the agent, as comparisons do; `at` is the place among the messages.
  const step = query.get("step");
  // A result has no row of its own: it is shown with the answer that asked for it.
  const shownAt = (message: number) => page.messages.findLast((each) => each.index <= message)?.index ?? message;
  const at = query.has("at") ? shownAt(Number(query.get("at"))) : step === null ? null : (page.messages.find((message) => message.step === Number(step))?.index ?? null);
  const sent = query.has("sent") ? Number(query.get("sent")) : null;
  const linkTo = (message: number) => href(path, changed(query, { at: message, sent: null, step: null }));
  const select = (message: number) => go(href(path, changed(query, { at: message, step: null })), { replace: true });
  const move = (by: number) => {
    const place = at === null ? (by > 0 ? -1 : steps.length) : steps.indexOf(at);
    const next = steps[Math.max(0, Math.min(steps.length - 1, place + by))];
    if (next !== undefined) select(next);
  };
  const toNeighbour = (to: Key | null | undefined, words: string) => {
    if (to) go(href(trajectoryPath(run, to), changed(list, { panel: query.get("panel") })));
    else session.say(words);
  };
  const actions: StepActions = {
    canWrite: session.canWrite,
    canGrow: (message) => session.canWrite && refusedGrowth(page, message) === null,
    open: (what, message) => (what === "sent" ? go(href(path, changed(query, { at: message, sent: message, step: null })), { replace: true }) : setDialog({ what, message })),
    mark: marks.mark,
    unmark: marks.unmark,
    linkTo,
  };
  const grow = (message: number) => {
    const refused = refusedGrowth(page, message);
    if (refused === null) actions.open("grow", message);
    else session.say(refused, true);
  };
  const answer = (message: number | null) => page.messages.find((each) => each.index === message && each.speaker === "agent");
  const markKeys = session.canWrite
    ? [
        { key: "g", words: "Mark the step or trajectory as good", act: () => marks.mark({ kind: "good", message: at }) },
        { key: "b", words: "Mark the step or trajectory as bad", act: () => marks.mark({ kind: "bad", message: at }) },
        { key: "m", words: "Write a note", act: () => marks.mark({ kind: "note", message: at }) },
        { key: "l", words: "Add a label", act: () => marks.mark({ kind: "label", message: at }) },
        { key: "v", words: "Give a verdict", act: () => marks.mark({ kind: "verdict", message: null }) },
        { key: "c", words: "Correct the step", act: () => at !== null && answer(at) && actions.open("correct", at) },
        { key: "o", words: "Grow on from the step", act: () => at !== null && grow(at) },
      ]
    : [];
  useKeys("Trajectory", [
    { key: "j", words: "Next step", act: () => move(1) },
    { key: "k", words: "Previous step", act: () => move(-1) },
    ...(panel === "pictures"
      ? []
      : [
          { key: "ArrowRight", words: "Next step", isHidden: true, act: () => move(1) },
          { key: "ArrowLeft", words: "Previous step", isHidden: true, act: () => move(-1) },
        ]),
    { key: "n", words: "Next trajectory", act: () => (walk ? walk.move(1) : neighbours && toNeighbour(neighbours.next, "This is the last trajectory of the list.")) },
    { key: "p", words: "Previous trajectory", act: () => (walk ? walk.move(-1) : neighbours && toNeighbour(neighbours.previous, "This is the first trajectory of the list.")) },
    { key: "f", words: "Unfold or fold all reasoning", act: () => setOpen(!areOpen) },
    { key: "s", words: "What was sent at this step", act: () => at !== null && answer(at) && !report && actions.open("sent", at) },
    { key: "t", words: "Tree of the task", act: () => !report && go(href(treePath(run, page.dataset, page.task_id), { leaf: page.id })) },
    ...markKeys,
  ]);
  const scroller = useScrollTo(at, panel);

  const to = (name: string | null) => href(path, changed(query, { panel: name, sent: null }));
  const tabs = [
    { name: "conversation", words: "Conversation", href: to(null) },
    ...(frames.length ? [{ name: "pictures", words: `Pictures (${frames.length})`, href: to("pictures") }] : []),
    { name: "setup", words: "Prompt and tools", href: to("setup") },
    ...(report || !page.has.states ? [] : [{ name: "data", words: "Data", href: to("data") }]),
    ...(report || !page.has.tokens ? [] : [{ name: "tokens", words: "Tokens", href: to("tokens") }]),
  ];
  const dialogMessage = dialog && page.messages.find((message) => message.index === dialog.message);
  return (
    <main class="trajectory" ref={scroller}>
      <Head run={run} page={page} query={query} neighbours={neighbours} actions={actions} onNeighbour={toNeighbour} />
      {ours.map((growth) => (
        <GrowthStatus key={growth.number} run={run} growth={growth} onChange={growths.reload} />
      ))}
      <div class="trajectory-bar">
        <div class="trajectory-bar-row">
          <Tabs label="Parts of the trajectory" tabs={tabs} current={panel} />
          {panel === "conversation" && (
            <div class="actions">
              <StepSearch key={page.id} />
              <button type="button" class="quiet" aria-pressed={areOpen} onClick={() => setOpen(!areOpen)}>
                {areOpen ? "Fold reasoning" : "Unfold reasoning"}
              </button>
            </div>
          )}
        </div>
        {(panel === "conversation" || panel === "pictures") && <TimeBar page={page} at={at} hasLanes={panel === "conversation"} onSelect={select} />}
      </div>
      {panel === "conversation" && <Lanes run={run} page={page} at={at} areOpen={areOpen} actions={actions} onSelect={select} />}
      {panel === "pictures" && <Film run={run} frames={frames} at={at} onSelect={select} />}
      {panel === "setup" && <SetupPanel page={page} />}
      {panel === "data" && <DataPanel run={run} page={page} linkTo={linkTo} />}
      {panel === "tokens" && <TokensPanel run={run} page={page} linkTo={linkTo} />}
      {sent !== null && !report && <SentDialog run={run} page={page} message={sent} onClose={() => go(href(path, changed(query, { sent: null })), { replace: true })} />}
      {dialogMessage && dialog?.what === "correct" && <CorrectDialog run={run} page={page} message={dialogMessage} onClose={() => setDialog(null)} onDone={reload} />}
      {dialogMessage && dialog?.what === "grow" && <GrowDialog run={run} page={page} message={dialogMessage} onClose={() => setDialog(null)} onDone={growths.reload} />}
      {marks.asked && <MarkDialog request={marks.asked} place={marks.place} labels={marks.labels} onClose={marks.cancel} onSave={marks.save} />}
    </main>
  );
}

/** Why no branch can be grown behind a message; null where one can. */
function refusedGrowth({ can_grow: { ok, reason, last, why } }: TrajectoryPage, message: number): string | null {
  if (!ok) return `No branch can be grown from this attempt: ${reason ?? "no reason is known"}.`;
  const isTooLate = last !== null && last !== undefined && message > last;
  return isTooLate ? `No branch can be grown from here: ${why ?? "it is too late"}. Choose an earlier step.` : null;
}

function useNeighbours(run: string, page: TrajectoryPage | null, list: URLSearchParams): Neighbours | null {
  const query = new URLSearchParams(list);
  query.set("of", page?.dataset ?? "");
  query.set("id", page?.id ?? "");
  if (!query.has("sort") && !query.has("q")) query.set("sort", "finished");
  if (query.has("sort") && !query.has("desc")) query.set("desc", "1");
  return useAnswer<Neighbours>(page && ["runs", run, "neighbours"], query).data;
}

/** Brings the chosen step into view; the first time without moving past what is there already. */
function useScrollTo(at: number | null, panel: string) {
  const element = useRef<HTMLElement>(null);
  useEffect(() => {
    if (at === null || panel !== "conversation") return;
    const step = element.current?.querySelector(`[data-message="${at}"]`);
    if (!step) return;
    const box = step.getBoundingClientRect();
    const top = element.current?.querySelector(".trajectory-bar")?.getBoundingClientRect().bottom ?? 0;
    if (box.top < top || box.bottom > innerHeight) step.scrollIntoView({ block: "start" });
  }, [at, panel]);
  return element;
}
