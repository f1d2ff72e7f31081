/** How a run went over time, and how its figures are distributed. */

import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { useAnswer } from "../answers";
import { count, duration, money, percent, reward, short, words } from "../format";
import { Bars, Histogram } from "../parts/bars";
import { Chart, type Line } from "../parts/chart";
import { Empty } from "../parts/notice";
import { changed, go, href, makeQuery, runPath } from "../router";
import type { DatasetStats, RunPage, Series, SeriesName } from "../types";

const share = (value: number | null) => (value === null ? "–" : `${Math.round(value * 100)}%`);

export function PlotsPanel({ page, series, run, query }: { page: RunPage; series: Series | null; run: string; query: URLSearchParams }): VNode {
  const name = query.get("plot") ?? "";
  const own = useAnswer<Series>(name ? ["runs", run, "series"] : null, makeQuery({ dataset: name }));
  const stats = page.datasets.find((each) => each.name === name) ?? page.total;
  const shown = name ? own.data : series;
  const list = (key: string, value: string) => href(runPath(run), makeQuery({ [key]: value, dataset: name }));
  return (
    <div class="panel">
      {page.datasets.length > 1 && (
        <label class="field is-inline">
          Dataset
          <select value={name} onChange={(event) => go(href(runPath(run), changed(query, { plot: event.currentTarget.value })))}>
            <option value="">all</option>
            {page.datasets.map((each) => (
              <option value={each.name}>{each.name}</option>
            ))}
          </select>
        </label>
      )}
      {shown && shown.t.length > 1 ? <SeriesCharts series={shown} /> : <Empty>Plots over time begin with the second finished attempt.</Empty>}
      {stats && (
        <>
          <div class="plot-grid">
            {stats.turns && <Histogram title="Turns" of={stats.turns} />}
            {stats.steps && <Histogram title="Steps" of={stats.steps} />}
            {stats.tool_calls && <Histogram title="Tool calls" of={stats.tool_calls} />}
            {stats.tokens && <Histogram title="Tokens" of={stats.tokens} />}
            {stats.seconds && <Histogram title="Time of an attempt" of={stats.seconds} format={duration} />}
            {stats.latency && <Histogram title="Latency of a request" of={stats.latency} format={duration} />}
          </div>
          <div class="plot-grid is-wide">
            <Bars title="Ended by" bars={entries(stats.stop_reasons).map(([key, value]) => ({ name: key, words: words(key), count: value, href: list("stop_reason", key) }))} of={stats.attempts} />
            <Bars title="Status" bars={entries(stats.statuses).map(([key, value]) => ({ name: key, count: value, href: list("status", key) }))} of={stats.attempts} />
            <Bars title="Tools" bars={stats.tools.slice(0, 20).map((tool) => ({ name: tool.name, count: tool.calls, errors: tool.errors, href: list("tool", tool.name) }))} />
            <Bars title="Marks of filters" bars={entries(page.filters).map(([key, value]) => ({ name: key, count: value, href: list("filter", key) }))} />
            <Bars title="Finished by rank" bars={page.ranks.map((rank) => ({ name: String(rank.rank), count: rank.finished }))} />
          </div>
        </>
      )}
      {page.sampled !== null && <p class="hint">Tools and latencies are of a sample of {count(page.sampled)} attempts.</p>}
      {page.datasets.length > 1 && <DatasetTable datasets={page.datasets} run={run} />}
    </div>
  );
}

function entries(counts: Record<string, number>): [string, number][] {
  return Object.entries(counts).sort((one, two) => two[1] - one[1]);
}

function SeriesCharts({ series }: { series: Series }): VNode {
  const charts = useMemo(() => makeCharts(series), [series]);
  return (
    <div class="plot-grid">
      {charts.map((chart) => (
        <Chart key={chart.title} t={series.t} {...chart} />
      ))}
    </div>
  );
}

interface ChartPlan {
  title: string;
  lines: Line[];
  format?: (value: number | null) => string;
  range?: [number, number];
}

function makeCharts(series: Series): ChartPlan[] {
  const line = (name: SeriesName, label: string, color: string): Line[] => {
    const values = series[name];
    return values?.some((value) => value !== null) ? [{ label, color, values }] : [];
  };
  const isMoving = (name: SeriesName) => series[name]?.some((value) => !!value);
  const plans: ChartPlan[] = [
    { title: "Solved", lines: line("solved", "share of scored", "--good"), format: share, range: [0, 1] },
    { title: "Mean reward", lines: line("mean_reward", "mean", "--agent"), format: reward, range: [0, 1] },
    { title: "Finished", lines: [...line("finished", "finished", "--agent"), ...(isMoving("failed") ? line("failed", "failed", "--bad") : [])], format: short },
    { title: "Turns and tool calls", lines: [...line("turns", "turns", "--user"), ...line("tool_calls", "tool calls", "--tool")] },
    { title: "Tokens", lines: isMoving("tokens") ? line("tokens", "tokens", "--agent") : [], format: short },
    { title: "Cost", lines: isMoving("cost") ? line("cost", "cost", "--user") : [], format: money },
    { title: "Latency of a request", lines: isMoving("latency_p99") ? [...line("latency_p50", "p50", "--tool"), ...line("latency_p90", "p90", "--user"), ...line("latency_p99", "p99", "--bad")] : [], format: duration },
  ];
  return plans.filter((plan) => plan.lines.length > 0);
}

function DatasetTable({ datasets, run }: { datasets: DatasetStats[]; run: string }): VNode {
  return (
    <section>
      <h2>By dataset</h2>
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Figures by dataset">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Dataset</th>
              {["Attempts", "Solved", "Mean reward", "Turns", "Steps", "Calls", "Cost"].map((title) => (
                <th scope="col" class="is-number">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {datasets.map((each) => (
              <tr>
                <td>
                  <a href={href(runPath(run), makeQuery({ dataset: each.name }))}>{each.name}</a>
                </td>
                <td class="is-number">{count(each.attempts)}</td>
                <td class="is-number">{percent(each.solved, each.scored)}</td>
                <td class="is-number">{reward(each.mean_reward)}</td>
                <td class="is-number">{each.turns ? each.turns.mean.toFixed(1) : "–"}</td>
                <td class="is-number">{each.steps ? each.steps.mean.toFixed(1) : "–"}</td>
                <td class="is-number">{each.tool_calls ? each.tool_calls.mean.toFixed(1) : "–"}</td>
                <td class="is-number">{money(each.cost)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
