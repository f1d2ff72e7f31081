/** A self-contained report: the same page over trajectories that the document itself holds, without any request. */

import type { Json, Key, Neighbours, ReportData, RunPage, RunRow, TrajectoryList, TrajectoryPage, TrajectoryRow } from "./types";

export const REPORT_RUN = "report";

export const report: ReportData | null = readReport();

function readReport(): ReportData | null {
  const element = document.getElementById("rollout-data");
  if (!element?.textContent) return null;
  return JSON.parse(element.textContent) as ReportData;
}

/** The answer that a server would give, made from the report. */
export function answerFromReport<T>(data: ReportData, path: readonly (string | number)[], query: URLSearchParams): Promise<T> {
  const last = path.at(-1);
  let answer: unknown;
  if (last === "me") answer = { version: "", author: "", read_only: true, runs: 1, can_grow: false };
  else if (last === "runs") answer = [rowOf(data)];
  else if (path.length === 2) answer = runPage(data);
  else if (last === "trajectories") answer = list(data, query);
  else if (last === "trajectory") answer = find(data, keyOf(query));
  else if (last === "neighbours") answer = neighbours(data, query);
  if (answer === undefined) return Promise.reject(new Error("A report does not hold this. Open the run with rollout view."));
  return Promise.resolve(answer as T);
}

function keyOf(query: URLSearchParams): Key {
  return { dataset: query.get("dataset") ?? "", id: query.get("id") ?? "" };
}

function find(data: ReportData, key: Key): TrajectoryPage | undefined {
  return data.trajectories.find((each) => each.dataset === key.dataset && each.id === key.id);
}

/** Counts of what the report holds: the run's own figures are of all its trajectories. */
function rowOf(data: ReportData): RunRow {
  const pages = data.trajectories;
  const rewards = pages.flatMap((each) => (each.reward === null ? [] : [each.reward]));
  return {
    ...data.run,
    name: REPORT_RUN,
    is_live: false,
    planned: null,
    finished: pages.filter((each) => each.status !== "failed").length,
    failed: pages.filter((each) => each.status === "failed").length,
    scored: pages.filter((each) => each.scored).length,
    solved: pages.filter((each) => each.success).length,
    mean_reward: rewards.length ? rewards.reduce((sum, each) => sum + each, 0) / rewards.length : null,
    cost: pages.reduce((sum, each) => sum + (each.cost ?? 0), 0),
    datasets: [...new Set(pages.map((each) => each.dataset))],
  };
}

function runPage(data: ReportData): RunPage {
  const facet = (values: string[]) =>
    [...new Set(values)].map((value) => ({ value, count: values.filter((each) => each === value).length }));
  return {
    row: rowOf(data),
    total: null,
    datasets: [],
    sampled: null,
    causes: [],
    filters: {},
    ranks: [],
    index: { rows: data.trajectories.length, of: data.trajectories.length, is_ready: true },
    facets: {
      outcomes: facet(data.trajectories.map((each) => (each.scored ? (each.success ? "1" : "0") : "none"))),
      datasets: facet(data.trajectories.map((each) => each.dataset)),
      statuses: facet(data.trajectories.map((each) => each.status)),
      stop_reasons: facet(data.trajectories.map((each) => each.stop_reason)),
    },
    config: null,
  };
}

function trajectoryRow(page: TrajectoryPage): TrajectoryRow {
  const calls = page.messages.flatMap((message) => message.calls);
  return {
    dataset: page.dataset,
    id: page.id,
    task_id: page.task_id,
    author: page.author,
    status: page.status,
    stop_reason: page.stop_reason,
    success: page.success,
    scored: page.scored,
    reward: page.reward,
    turns: page.turns,
    steps: page.steps,
    tool_calls: page.tool_calls,
    tool_errors: calls.filter((call) => call.error_kind !== null).length,
    tokens: Object.values(page.usage).reduce((sum, each) => sum + (each.prompt_tokens ?? 0) + (each.completion_tokens ?? 0), 0),
    cost: page.cost,
    seconds: page.timings?.seconds ?? null,
    finished: page.finished,
    model: page.model,
    rank: null,
    error: page.error,
    marks: page.marks.map((mark) => ({ kind: mark.kind, value: mark.text ?? mark.value })),
    snippet: null,
    first: page.messages.find((message) => message.speaker === "user")?.text ?? "",
  };
}

function matches(page: TrajectoryPage, query: URLSearchParams): boolean {
  const within = (name: string, value: string) => !query.has(name) || query.getAll(name).includes(value);
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const text = words.length ? JSON.stringify(page.messages as unknown as Json).toLowerCase() : "";
  const solved = query.get("success");
  return (
    within("dataset", page.dataset) &&
    within("status", page.status) &&
    within("stop_reason", page.stop_reason) &&
    (solved === null || (page.scored ? (page.success ? "1" : "0") : "none") === solved) &&
    words.every((word) => text.includes(word))
  );
}

function select(data: ReportData, query: URLSearchParams): TrajectoryRow[] {
  const rows = data.trajectories.filter((page) => matches(page, query)).map(trajectoryRow);
  const by = query.get("sort") as keyof TrajectoryRow | null;
  const sign = query.get("desc") === "1" ? -1 : 1;
  return by ? rows.sort((one, two) => sign * compare(one[by], two[by])) : rows;
}

function compare(one: unknown, two: unknown): number {
  if (typeof one === "number" && typeof two === "number") return one - two;
  return String(one ?? "").localeCompare(String(two ?? ""));
}

function list(data: ReportData, query: URLSearchParams): TrajectoryList {
  const rows = select(data, query);
  const offset = Number(query.get("offset") ?? 0);
  return { total: rows.length, offset, rows: rows.slice(offset, offset + Number(query.get("limit") ?? 100)) };
}

function neighbours(data: ReportData, query: URLSearchParams): Neighbours {
  const key = { dataset: query.get("of"), id: query.get("id") };
  const rows = select(data, query);
  const place = rows.findIndex((row) => row.dataset === key.dataset && row.id === key.id);
  const at = (where: number): Key | null => {
    const row = place < 0 ? undefined : rows[where];
    return row ? { dataset: row.dataset, id: row.id } : null;
  };
  return { previous: at(place - 1), next: at(place + 1), place: place < 0 ? null : place, total: rows.length };
}
