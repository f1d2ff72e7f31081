/** One run: its figures as they change, and its trajectories, plots, causes of failure and settings. */

import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { NARROW, useAnswer, useMedia, useThrottled, useTitle } from "../answers";
import { count, money, number, percent, plural, reward, when, wholeDate } from "../format";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { Sparkline } from "../parts/chart";
import { Chosen, Facets } from "../parts/facets";
import { Loading, Problem } from "../parts/notice";
import { Progress } from "../parts/progress";
import { Tabs } from "../parts/tabs";
import { rowKey, TrajectoryTable } from "../parts/trajectory_table";
import { report } from "../report";
import { changed, go, href, listQuery, parseHash, runPath } from "../router";
import type { Growth, RunPage, RunRow, Series, TrajectoryRow } from "../types";
import { ExportDialog } from "./export";
import { ConfigPanel, ErrorsPanel, GrowthsPanel } from "./run_panels";
import { PlotsPanel } from "./run_plots";

const RELOAD_MS = 1500;

export function RunView({ run, query }: { run: string; query: URLSearchParams }): VNode {
  const page = useAnswer<RunPage>(["runs", run]);
  const series = useAnswer<Series>(report ? null : ["runs", run, "series"], undefined, { keep: true });
  const growths = useAnswer<Growth[]>(report ? null : ["runs", run, "growths"]);
  const [row, setRow] = useState<RunRow | null>(null);
  const [version, setVersion] = useState(0);
  const reload = useThrottled(() => {
    page.reload();
    series.reload();
    setVersion((before) => before + 1);
  }, RELOAD_MS);
  // An index of 100,000 attempts says 250 times how far it is.
  const reloadPage = useThrottled(page.reload, RELOAD_MS);
  const reloadGrowths = useThrottled(growths.reload, RELOAD_MS);
  const liveState = useLive(run, (kind, data) => {
    if (kind === "growth" || kind === "play" || kind === "poll") reloadGrowths();
    if (kind === "run" && isRunRow(data)) {
      // The first event of a run says what the page knows already.
      if (JSON.stringify(data) === JSON.stringify(row)) return;
      setRow((before) => ({ ...(before ?? ({} as RunRow)), ...data }));
    }
    // The first event of an index, too.
    if (kind === "index" && JSON.stringify(data) === JSON.stringify(page.data?.index)) return;
    if (kind !== "index") reload();
    else reloadPage();
  });
  const isIndexed = page.data?.index.is_ready;
  const wasIndexed = useRef(isIndexed);
  useEffect(() => {
    // Rows that were asked for while the index was made may not be all.
    if (isIndexed && wasIndexed.current === false) setVersion((before) => before + 1);
    wasIndexed.current = isIndexed;
  }, [isIndexed]);
  useEffect(() => setRow(page.data?.row ?? null), [page.data]);
  useTitle(page.data?.row.title || run);
  useKeys("Run", [{ key: "e", words: "Export", act: () => setExporting(true) }]);
  const [isExporting, setExporting] = useState(false);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());

  if (page.error && !page.data) return <Problem error={page.error} retry={page.reload} />;
  if (!page.data || !row) return <Loading what={run} />;
  const path = runPath(run);
  const failures = page.data.causes.reduce((sum, cause) => sum + cause.count, 0);
  const tabs = [
    { name: "trajectories", words: "Trajectories", href: href(path, changed(query, { tab: null })) },
    ...(report
      ? []
      : [
          { name: "plots", words: "Plots", href: href(path, changed(query, { tab: "plots" })) },
          { name: "errors", words: failures ? `Errors (${count(failures)})` : "Errors", href: href(path, changed(query, { tab: "errors" })) },
          ...(growths.data?.length ? [{ name: "growths", words: `Growths (${growths.data.length})`, href: href(path, changed(query, { tab: "growths" })) }] : []),
          { name: "config", words: "Settings", href: href(path, changed(query, { tab: "config" })) },
        ]),
  ];
  const tab = tabs.find((each) => each.name === query.get("tab"))?.name ?? "trajectories";
  return (
    <main class="run">
      <header class="view-head">
        <div>
          <h1>
            {row.title || run}
            {row.is_live && <span class="tag is-live">running</span>}
          </h1>
          <p class="hint">
            {[row.model, row.user_model && `user: ${row.user_model}`, row.config, row.started !== null && `started ${when(row.started)}`].filter(Boolean).join(" · ")}
            {liveState === "polling" && " · asked every 5 s"}
          </p>
        </div>
        {!report && (
          <div class="actions">
            <a class="button" href={href([...path, "queue"], listQuery(query))}>
              Review
            </a>
            <a class="button" href={href([...path, "play"])}>
              Play
            </a>
            <button type="button" onClick={() => setExporting(true)}>
              Export{chosen.size > 0 && ` (${chosen.size})`}
            </button>
          </div>
        )}
      </header>
      {row.problem && <p class="notice is-problem">{row.problem}</p>}
      <Counters row={row} page={page.data} series={series.data} />
      <Tabs label="Parts of the run" tabs={tabs} current={tab} />
      {tab === "trajectories" && (
        <Trajectories
          run={run}
          page={page.data}
          query={query}
          version={version}
          chosen={chosen}
          onChoose={(rows, is) =>
            setChosen((before) => {
              const next = new Set(before);
              for (const each of rows) if (is) next.add(rowKey(each)); else next.delete(rowKey(each));
              return next;
            })
          }
        />
      )}
      {tab === "plots" && <PlotsPanel page={page.data} series={series.data} run={run} query={query} />}
      {tab === "errors" && <ErrorsPanel page={page.data} run={run} />}
      {tab === "growths" && <GrowthsPanel run={run} growths={growths.data ?? []} onChange={growths.reload} />}
      {tab === "config" && <ConfigPanel page={page.data} />}
      {isExporting && <ExportDialog run={run} query={listQuery(query)} chosen={chosen} onClose={() => setExporting(false)} />}
    </main>
  );
}

function isRunRow(data: unknown): data is Partial<RunRow> {
  return typeof data === "object" && data !== null && "finished" in data;
}

function Counters({ row, page, series }: { row: RunRow; page: RunPage; series: Series | null }): VNode {
  const total = page.total;
  return (
    <section class="counters" aria-label="Figures of the run">
      <Counter title="Finished" spark={series?.finished} wide>
        {count(row.finished)}
        {row.planned !== null && <small> of {count(row.planned)}</small>}
        <Progress row={row} />
      </Counter>
      <Counter title="Solved" spark={series?.solved}>
        {percent(row.solved, row.scored)}
        <small>
          {" "}
          {count(row.solved)} of {count(row.scored)}
        </small>
      </Counter>
      <Counter title="Mean reward" spark={series?.mean_reward}>
        {reward(row.mean_reward)}
      </Counter>
      <Counter title="Failed" spark={row.failed ? series?.failed : undefined} isBad={row.failed > 0}>
        {count(row.failed)}
        {row.failed > 0 && <small> {percent(row.failed, row.finished + row.failed)}</small>}
      </Counter>
      {total?.turns && (
        <Counter title="Turns" spark={series?.turns}>
          {number(total.turns.mean, 1)}
          <small> mean</small>
        </Counter>
      )}
      {total?.tool_calls && (
        <Counter title="Tool calls" spark={series?.tool_calls}>
          {number(total.tool_calls.mean, 1)}
          <small> mean</small>
        </Counter>
      )}
      {total?.tokens && (
        <Counter title="Tokens" spark={series?.tokens}>
          {count(Math.round(total.tokens.mean))}
          <small> mean</small>
        </Counter>
      )}
      {!!row.cost && (
        <Counter title="Cost" spark={series?.cost}>
          {money(row.cost)}
        </Counter>
      )}
      <Counter title={row.is_live ? "Updated" : "Last change"}>
        <span title={wholeDate(row.updated)}>{when(row.updated ?? row.started)}</span>
      </Counter>
    </section>
  );
}

interface CounterProperties {
  title: string;
  children: ComponentChildren;
  spark?: (number | null)[] | undefined;
  isBad?: boolean;
  wide?: boolean;
}

function Counter({ title, children, spark, isBad = false, wide = false }: CounterProperties): VNode {
  return (
    <div class={`counter${isBad ? " is-bad" : ""}${wide ? " is-wide" : ""}`}>
      <span class="counter-title">{title}</span>
      <span class="counter-value">{children}</span>
      {spark && <Sparkline values={spark} />}
    </div>
  );
}

interface TrajectoriesProperties {
  run: string;
  page: RunPage;
  query: URLSearchParams;
  version: number;
  chosen: ReadonlySet<string>;
  onChoose: (rows: TrajectoryRow[], isChosen: boolean) => void;
}

function Trajectories({ run, page, query, version, chosen, onChoose }: TrajectoriesProperties): VNode {
  const isNarrow = useMedia(NARROW);
  const [total, setTotal] = useState<number | null>(null);
  const path = runPath(run);
  const { index, row, total: stats } = page;
  const hasTokens = report ? report.trajectories.some(({ usage }) => Object.values(usage).some((used) => used.prompt_tokens || used.completion_tokens)) : !stats || !!stats.tokens;
  const without = [...(row.cost ? [] : ["cost"]), ...(hasTokens || row.is_live ? [] : ["tokens"])];
  return (
    <div class="trajectories">
      {isNarrow ? (
        <details class="facets-fold">
          <summary>Filters</summary>
          <Facets page={page} path={path} query={query} />
        </details>
      ) : (
        <aside aria-label="Filters">
          <Facets page={page} path={path} query={query} />
        </aside>
      )}
      <section class="trajectories-main" aria-label="Trajectories">
        <div class="table-tools">
          <Search query={query} />
          <span class="hint" role="status">
            {total === null ? "" : plural(total, "trajectory", "trajectories")}
            {chosen.size > 0 && ` · ${count(chosen.size)} chosen`}
            {!index.is_ready && ` · text search covers ${percent(index.rows, index.of)} so far`}
          </span>
        </div>
        <Chosen path={path} query={query} />
        <TrajectoryTable run={run} path={path} query={query} version={version} without={without} chosen={chosen} onChoose={onChoose} onTotal={setTotal} />
      </section>
    </div>
  );
}

function Search({ query }: { query: URLSearchParams }): VNode {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(query.get("q") ?? "");
  const fromAddress = query.get("q") ?? "";
  /** The text that was last put into the address. When it comes back from there, more may have been typed. */
  const written = useRef(fromAddress);
  useEffect(() => {
    if (fromAddress === written.current) return;
    written.current = fromAddress;
    setText(fromAddress);
  }, [fromAddress]);
  useEffect(() => {
    if (text === fromAddress) return;
    const timer = setTimeout(() => {
      // A filter may have been chosen since this was drawn.
      const now = parseHash(location.hash);
      written.current = text;
      go(href(now.path, changed(now.query, { q: text, sort: text ? null : now.query.get("sort") })), { replace: true });
    }, 250);
    return () => clearTimeout(timer);
  }, [text]);
  useKeys("Search", [{ key: "/", words: "Search in all messages", act: () => field.current?.focus() }]);
  return (
    <input
      ref={field}
      type="search"
      class="search"
      aria-label="Search in all messages"
      placeholder="Search in all messages  ( / )"
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== "Escape" && event.key !== "Enter") return;
        event.preventDefault();
        event.currentTarget.blur();
        document.querySelector<HTMLElement>(".table")?.focus();
      }}
    />
  );
}
