/** The trajectories of a run as a table that draws only what is in view and asks the server for pages of rows as they come
 * into view. The server sorts, searches and filters, so that 100,000 rows are as quick as 100. */

import type { ComponentChildren, VNode } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { NARROW, useMedia } from "../answers";
import { get } from "../api";
import { count, duration, firstLine, money, reward, short, when, words } from "../format";
import { useKeys } from "../keys";
import { changed, go, href, listQuery, trajectoryPath } from "../router";
import type { TrajectoryList, TrajectoryRow } from "../types";
import { Empty, Problem } from "./notice";
import { Outcome } from "./outcome";
import { Snippet } from "./text";

const PAGE = 100;
const ROW_HEIGHT = 46;
const NARROW_ROW_HEIGHT = 84;
const BEYOND = 8;
/** Pages on either side of the view whose rows are kept. Others are asked for again. */
const KEPT_PAGES = 10;

interface Column {
  name: string;
  title: string;
  /** What the server sorts by; none where it does not. */
  sort?: string;
  isNumber?: boolean;
  cell: (row: TrajectoryRow) => ComponentChildren;
}

const COLUMNS: readonly Column[] = [
  { name: "outcome", title: "Outcome", sort: "success", cell: (row) => <Outcome {...row} /> },
  { name: "task", title: "Task", sort: "task_id", cell: (row) => <TaskCell row={row} /> },
  { name: "ended", title: "Ended by", sort: "stop_reason", cell: (row) => <Ended row={row} /> },
  { name: "reward", title: "Reward", sort: "reward", isNumber: true, cell: (row) => reward(row.reward) },
  { name: "turns", title: "Turns", sort: "turns", isNumber: true, cell: (row) => count(row.turns) },
  { name: "steps", title: "Steps", sort: "steps", isNumber: true, cell: (row) => count(row.steps) },
  { name: "calls", title: "Calls", sort: "tool_calls", isNumber: true, cell: (row) => <Calls row={row} /> },
  { name: "tokens", title: "Tokens", sort: "tokens", isNumber: true, cell: (row) => (row.tokens ? short(row.tokens) : "–") },
  { name: "cost", title: "Cost", sort: "cost", isNumber: true, cell: (row) => money(row.cost) },
  { name: "seconds", title: "Time", sort: "seconds", isNumber: true, cell: (row) => duration(row.seconds) },
  { name: "finished", title: "Finished", sort: "finished", isNumber: true, cell: (row) => when(row.finished) },
];

interface Properties {
  run: string;
  path: readonly string[];
  query: URLSearchParams;
  /** Changes when the rows may have changed. */
  version: number;
  /** Columns that would be empty. */
  without: readonly string[];
  chosen: ReadonlySet<string>;
  onChoose: (rows: TrajectoryRow[], isChosen: boolean) => void;
  onTotal: (total: number) => void;
}

export const rowKey = (row: { dataset: string; id: string }): string => `${row.dataset}\n${row.id}`;

export function TrajectoryTable({ run, path, query, version, without, chosen, onChoose, onTotal }: Properties): VNode {
  const isNarrow = useMedia(NARROW);
  const columns = useMemo(() => COLUMNS.filter((column) => !without.includes(column.name)), [without.join()]);
  const height = isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  const { rows, total, error, ask, isStale } = useRows(run, listQuery(query), version);
  const [view, setView] = useState({ first: 0, last: 30 });
  const [current, setCurrent] = useState(-1);
  const frame = useRef<HTMLDivElement>(null);

  const measure = useCallback(() => {
    const element = frame.current;
    if (!element) return;
    const first = Math.floor(element.scrollTop / height);
    setView({ first, last: first + Math.ceil(element.clientHeight / height) });
  }, [height]);
  useEffect(measure, [height, total]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, [measure]);
  useEffect(() => {
    setCurrent(-1);
    if (frame.current) frame.current.scrollTop = 0;
  }, [query.toString()]);
  const lastInView = total === null ? view.last : Math.max(view.first, Math.min(view.last, total - 1));
  useEffect(() => ask(Math.floor(view.first / PAGE), Math.floor(lastInView / PAGE)), [view.first, lastInView, ask]);
  useEffect(() => {
    if (total !== null) onTotal(total);
  }, [total]);

  const open = (place: number) => {
    const row = rows.get(place);
    if (row) go(rowHref(run, row, query));
  };
  const moveTo = (place: number) => {
    const next = Math.max(0, Math.min((total ?? 1) - 1, place));
    setCurrent(next);
    const element = frame.current;
    if (!element) return;
    const header = element.querySelector(".table-head")?.clientHeight ?? 0;
    const top = next * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight - header) element.scrollTop = top + height - element.clientHeight + header;
  };
  const page = Math.max(1, view.last - view.first - 2);
  useKeys("Table", [
    { key: "j", words: "Next row", act: () => moveTo(current + 1) },
    { key: "ArrowDown", words: "Next row", isHidden: true, act: () => moveTo(current + 1) },
    { key: "k", words: "Previous row", act: () => moveTo(current - 1) },
    { key: "ArrowUp", words: "Previous row", isHidden: true, act: () => moveTo(current - 1) },
    { key: "PageDown", words: "A page on", act: () => moveTo(current + page) },
    { key: "PageUp", words: "A page back", act: () => moveTo(current - page) },
    { key: "Home", words: "First row", act: () => moveTo(0) },
    { key: "End", words: "Last row", act: () => moveTo((total ?? 1) - 1) },
    { key: "x", words: "Choose the row", act: () => choose(current) },
  ]);
  const choose = (place: number) => {
    const row = rows.get(place);
    if (row) onChoose([row], !chosen.has(rowKey(row)));
  };

  const first = Math.max(0, view.first - BEYOND);
  const last = Math.min((total ?? 0) - 1, view.last + BEYOND);
  const places = useMemo(() => Array.from({ length: Math.max(0, last - first + 1) }, (_, each) => first + each), [first, last]);
  if (error && total === null) return <Problem error={error} />;
  return (
    <div
      class={["table", isStale && "is-stale", ...without.map((name) => `has-no-${name}`)].filter(Boolean).join(" ")}
      ref={frame}
      role="grid"
      aria-label="Trajectories"
      aria-rowcount={(total ?? 0) + 1}
      aria-colcount={columns.length + 1}
      aria-activedescendant={current >= 0 ? `row-${current}` : undefined}
      aria-busy={isStale}
      tabIndex={0}
      onScroll={measure}
      onKeyDown={(event) => {
        if (event.key === "Enter" && event.target === frame.current && current >= 0) open(current);
      }}
    >
      <Head columns={columns} path={path} query={query} isAllChosen={places.length > 0 && places.every((place) => isChosen(chosen, rows.get(place)))} onChooseAll={(is) => onChoose([...rows.values()], is)} />
      <div role="rowgroup" class="table-space" style={{ height: `${Math.max((total ?? 0) * height, 1)}px` }}>
        {places.map((place) => (
          <Row key={place} columns={columns} place={place} row={rows.get(place)} top={place * height} run={run} query={query} isCurrent={place === current} isChosen={isChosen(chosen, rows.get(place))} onChoose={() => choose(place)} />
        ))}
      </div>
      {total === 0 && <Empty>No trajectory fits. Take a filter away or search for something else.</Empty>}
      {error && total !== null && <Problem error={error} />}
    </div>
  );
}

/** A row that a search found leads to the message where its words are. */
function rowHref(run: string, row: TrajectoryRow, query: URLSearchParams): string {
  return href(trajectoryPath(run, row), changed(listQuery(query), { at: row.hit ?? null }));
}

function isChosen(chosen: ReadonlySet<string>, row: TrajectoryRow | undefined): boolean {
  return !!row && chosen.has(rowKey(row));
}

function Head({ columns, path, query, isAllChosen, onChooseAll }: { columns: readonly Column[]; path: readonly string[]; query: URLSearchParams; isAllChosen: boolean; onChooseAll: (is: boolean) => void }): VNode {
  const by = query.get("sort") ?? (query.has("q") ? "" : "finished");
  const isDescending = query.get("desc") !== "0";
  const sort = (name: string) => href(path, changed(query, { sort: name, desc: by === name && isDescending ? "0" : "1" }));
  return (
    <div role="rowgroup" class="table-head">
      <div role="row" aria-rowindex={1} class="row">
        <span role="columnheader" class="cell-choose">
          <input type="checkbox" aria-label="Choose all rows that are loaded" checked={isAllChosen} onChange={(event) => onChooseAll(event.currentTarget.checked)} />
        </span>
        {columns.map((column) => {
          const isBy = by === column.sort;
          return (
            <span role="columnheader" class={`cell-${column.name}${column.isNumber ? " is-number" : ""}`} aria-sort={isBy ? (isDescending ? "descending" : "ascending") : undefined}>
              {column.sort ? (
                <a href={sort(column.sort)}>
                  {column.title}
                  {isBy && <span aria-hidden="true">{isDescending ? " ↓" : " ↑"}</span>}
                </a>
              ) : (
                column.title
              )}
            </span>
          );
        })}
      </div>
    </div>
  );
}

interface RowProperties {
  columns: readonly Column[];
  place: number;
  row: TrajectoryRow | undefined;
  top: number;
  run: string;
  query: URLSearchParams;
  isCurrent: boolean;
  isChosen: boolean;
  onChoose: () => void;
}

function Row({ columns, place, row, top, run, query, isCurrent, isChosen, onChoose }: RowProperties): VNode {
  const style = { transform: `translateY(${top}px)` };
  const className = `row${isCurrent ? " is-current" : ""}${isChosen ? " is-chosen" : ""}`;
  if (!row) {
    return (
      <div role="row" class={`${className} is-waiting`} style={style} aria-rowindex={place + 2}>
        <span role="gridcell">…</span>
      </div>
    );
  }
  return (
    <div role="row" id={`row-${place}`} class={className} style={style} aria-rowindex={place + 2} aria-selected={isChosen}>
      <span role="gridcell" class="cell-choose">
        <input type="checkbox" tabIndex={-1} aria-label={`Choose ${row.id}`} checked={isChosen} onChange={onChoose} />
      </span>
      {columns.map((column) => (
        <span role="gridcell" class={`cell-${column.name}${column.isNumber ? " is-number" : ""}`}>
          {column.name === "task" ? (
            <a class="row-link" tabIndex={-1} href={rowHref(run, row, query)}>
              {column.cell(row)}
            </a>
          ) : (
            column.cell(row)
          )}
        </span>
      ))}
    </div>
  );
}

function TaskCell({ row }: { row: TrajectoryRow }): VNode {
  return (
    <>
      <span class="row-id">
        <b>{row.id}</b>
        <small>{row.dataset}</small>
        {row.author && <span class="tag is-person">by {row.author}</span>}
        {row.marks.map((mark) => (
          <span class={`tag is-mark-${mark.kind}`}>{mark.kind === "label" ? (mark.value ?? "label") : mark.kind === "verdict" ? `verdict ${mark.value ?? ""}` : mark.kind}</span>
        ))}
      </span>
      <span class="row-first">{row.error ? `${row.error.kind}: ${firstLine(row.error.text)}` : row.snippet?.length ? <Snippet parts={row.snippet} /> : firstLine(row.first ?? "")}</span>
    </>
  );
}

function Ended({ row }: { row: TrajectoryRow }): VNode {
  return (
    <>
      <span class="ended-words" title={words(row.stop_reason)}>
        {words(row.stop_reason)}
      </span>
      {row.status !== "completed" && <span class={`tag is-${row.status}`}>{row.status}</span>}
    </>
  );
}

function Calls({ row }: { row: TrajectoryRow }): VNode {
  return (
    <>
      {count(row.tool_calls)}
      {!!row.tool_errors && (
        <small class="bad" title={`${row.tool_errors} of them are errors`}>
          {" "}
          {count(row.tool_errors)}✕
        </small>
      )}
    </>
  );
}

interface Rows {
  rows: ReadonlyMap<number, TrajectoryRow>;
  total: number | null;
  error: Error | null;
  isStale: boolean;
  /** Asks for the pages from `first` to `last`, unless they are there. */
  ask: (first: number, last: number) => void;
}

/** The rows that were asked for. Former rows stay until those of a new query are there. */
function useRows(run: string, query: URLSearchParams, version: number): Rows {
  const where = `${run}?${query.toString()}`;
  const [state, setState] = useState<{ where: string; rows: Map<number, TrajectoryRow>; total: number | null; error: Error | null }>({ where, rows: new Map(), total: null, error: null });
  const asked = useRef<{ where: string; version: number; pages: Set<number>; view: [number, number] }>({ where: "", version: -1, pages: new Set(), view: [0, 0] });
  const ask = useCallback(
    (first: number, last: number) => {
      const now = asked.current;
      if (now.where !== where || now.version !== version) asked.current = { where, version, pages: new Set(), view: [first, last] };
      asked.current.view = [first, last];
      const pages = asked.current.pages;
      for (let page = Math.max(0, first); page <= last; page += 1) {
        if (pages.has(page)) continue;
        pages.add(page);
        void load(page);
      }
      async function load(page: number): Promise<void> {
        const asking = new URLSearchParams(query);
        if (!asking.has("sort") && !asking.has("q")) asking.set("sort", "finished");
        if (asking.has("sort") && !asking.has("desc")) asking.set("desc", "1");
        asking.set("offset", String(page * PAGE));
        asking.set("limit", String(PAGE));
        try {
          const list = await get<TrajectoryList>(["runs", run, "trajectories"], asking);
          if (asked.current.where !== where) return;
          setState((before) => {
            const rows = before.where === where ? new Map(before.rows) : new Map<number, TrajectoryRow>();
            list.rows.forEach((row, place) => rows.set(list.offset + place, row));
            forget(rows, pages, asked.current.view);
            return { where, rows, total: list.total, error: null };
          });
        } catch (error) {
          pages.delete(page);
          if (asked.current.where === where) setState((before) => ({ ...before, error: error as Error }));
        }
      }
    },
    [where, version],
  );
  return { rows: state.rows, total: state.total, error: state.error, ask, isStale: state.where !== where };
}

/** Drops the rows of pages that are far from those in view, so that scrolling through a run does not collect it. */
function forget(rows: Map<number, TrajectoryRow>, pages: Set<number>, [first, last]: [number, number]): void {
  const isFar = (page: number) => page < first - KEPT_PAGES || page > last + KEPT_PAGES;
  for (const place of rows.keys()) if (isFar(Math.floor(place / PAGE))) rows.delete(place);
  for (const page of pages) if (isFar(page)) pages.delete(page);
}
