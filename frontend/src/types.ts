/** The answers of the server, as they are written (snake_case, times in seconds since 1970, null where unknown).
 *
 * This file mirrors the HTTP contract (`api/openapi.json`) and holds nothing else. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface Me {
  version: string;
  author: string;
  read_only: boolean;
  runs: number;
  can_grow: boolean;
}

export interface RunRow {
  name: string;
  path: string;
  title: string;
  config: string | null;
  started: number | null;
  updated: number | null;
  is_live: boolean;
  model: string | null;
  user_model: string | null;
  planned: number | null;
  finished: number;
  failed: number;
  scored: number;
  solved: number;
  mean_reward: number | null;
  cost: number | null;
  datasets: string[];
  problem: string | null;
}

export interface Bin {
  low: number;
  high: number;
  count: number;
}

export interface Distribution {
  count: number;
  mean: number;
  least: number;
  p50: number;
  p90: number;
  p99: number;
  most: number;
  bins: Bin[];
}

export interface ToolUse {
  name: string;
  calls: number;
  errors: number;
}

export interface Cause {
  /** What `cause=` in a query takes; absent where only the text is known. */
  key?: string;
  text: string;
  hint: string | null;
  count: number;
}

export interface DatasetStats {
  name: string;
  attempts: number;
  statuses: Record<string, number>;
  stop_reasons: Record<string, number>;
  scored: number;
  solved: number;
  mean_reward: number | null;
  cost: number;
  turns: Distribution | null;
  steps: Distribution | null;
  tool_calls: Distribution | null;
  tokens: Distribution | null;
  seconds: Distribution | null;
  latency: Distribution | null;
  tools: ToolUse[];
  causes: Cause[];
}

export interface Facet {
  value: string;
  count: number;
}

export type FacetName =
  | "outcomes"
  | "datasets"
  | "statuses"
  | "stop_reasons"
  | "models"
  | "tools"
  | "scores"
  | "marks"
  | "labels"
  | "authors"
  | "filters";

export interface Growth {
  number: number;
  dataset: string;
  task_id: string;
  /** The attempt that they continue; null if they start from the task. */
  id: string | null;
  /** The role that a person plays; null if models play both. */
  role: "agent" | "user" | null;
  message: number;
  n: number;
  model: string | null;
  temperature: number | null;
  author: string | null;
  at: number;
  state: "waiting" | "running" | "done" | "stopped" | "failed";
  error: string | null;
  attempts: GrownAttempt[];
}

export interface GrownAttempt {
  id: string;
  state: string;
  messages: number | null;
  status: string | null;
  success: boolean | null;
  reward: number | null;
}

export interface RunPage {
  row: RunRow;
  total: DatasetStats | null;
  datasets: DatasetStats[];
  sampled: number | null;
  causes: Cause[];
  filters: Record<string, number>;
  ranks: { rank: number; finished: number; [key: string]: Json }[];
  index: { rows: number; of: number; is_ready: boolean };
  facets: Partial<Record<FacetName, Facet[]>>;
  config: Json;
}

export type SeriesName =
  | "finished"
  | "solved"
  | "mean_reward"
  | "turns"
  | "tool_calls"
  | "tokens"
  | "cost"
  | "latency_p50"
  | "latency_p90"
  | "latency_p99"
  | "failed";

export type Series = { t: number[] } & Partial<Record<SeriesName, (number | null)[]>>;

export interface TrajectoryRow {
  dataset: string;
  id: string;
  task_id: string;
  author: string | null;
  status: string;
  stop_reason: string;
  success: boolean;
  scored: boolean;
  reward: number | null;
  turns: number | null;
  steps: number | null;
  tool_calls: number | null;
  tool_errors: number | null;
  tokens: number | null;
  cost: number | null;
  seconds: number | null;
  finished: number | null;
  model: string | null;
  rank: number | null;
  error: { kind: string; text: string } | null;
  marks: { kind: MarkKind; value: string | number | null }[];
  snippet: { text: string; hit: boolean }[] | null;
  first: string | null;
  /** The message in which a search found its words. */
  hit?: number | null;
}

export interface TrajectoryList {
  total: number;
  offset: number;
  rows: TrajectoryRow[];
}

export interface Key {
  dataset: string;
  id: string;
}

export interface Neighbours {
  previous: Key | null;
  next: Key | null;
  /** From 0. */
  place: number | null;
  total: number;
}

export interface FilterMark {
  filter: string;
  policy: string;
  reason: string;
  evidence?: string;
  turn?: number | null;
}

export interface PageElement {
  number?: number | null;
  role?: string;
  name?: string;
  box?: number[] | null;
}

export interface ShownData {
  mode?: string;
  above?: number | null;
  below?: number | null;
  width?: number | null;
  height?: number | null;
  elements?: PageElement[];
  [key: string]: unknown;
}

export interface ShownCall {
  name: string;
  arguments: JsonObject | null;
  written: string;
  result: string | null;
  error_kind: string | null;
  is_undone: boolean;
  /** The place of the result in the messages. */
  index?: number | null;
  url: string | null;
  title: string | null;
  images: string[];
  /** The facts of the page that the result shows, elements with their boxes among them. */
  data?: ShownData | null;
}

export interface ShownMessage {
  index: number;
  speaker: "system" | "user" | "agent" | "tool" | "note" | "observation";
  text: string;
  reasoning: string | null;
  turn: number | null;
  step: number | null;
  calls: ShownCall[];
  url: string | null;
  title: string | null;
  images: string[];
  marks: string[];
  filter_marks: FilterMark[];
  is_masked: boolean;
  is_cut_off: boolean;
  is_scripted: boolean;
  seconds: number;
  prompt_tokens: number;
  completion_tokens: number;
  cost: number;
  retries: number;
  user_calls: { name: string; arguments: string; result: string }[];
  at: number | null;
  author: string | null;
  key: [number, number] | null;
  weight_version?: string | null;
  data?: ShownData | null;
}

export interface Score {
  name: string;
  value: number | null;
  reason: string | null;
  partial: number | null;
  decides: boolean;
  evidence: Json;
}

export type MarkKind = "good" | "bad" | "note" | "label" | "verdict";

export interface Mark {
  number: number;
  dataset: string;
  id: string;
  message: number | null;
  kind: MarkKind;
  value: number | null;
  text: string | null;
  author: string;
  at: number;
}

/** `opening`: before the first message; `ending`: after the last, while it was scored. */
export type SpanKind = "opening" | "model" | "tool" | "retry" | "user" | "wait" | "ending";

export interface Span {
  message: number;
  kind: SpanKind;
  start: number;
  seconds: number;
  label: string;
}

export interface ToolSchema {
  name: string;
  description: string | null;
  parameters: JsonObject;
}

export interface Usage {
  prompt_tokens?: number;
  completion_tokens?: number;
  cached_tokens?: number;
  reasoning_tokens?: number;
}

export interface TrajectoryPage {
  dataset: string;
  id: string;
  task_id: string;
  author: string | null;
  status: string;
  stop_reason: string;
  stop_words: string;
  success: boolean;
  scored: boolean;
  unscored: string | null;
  reward: number | null;
  cost: number | null;
  /** By role: `agent`, `user`, `judge`, … */
  usage: Record<string, Usage>;
  turns: number;
  steps: number | null;
  tool_calls: number;
  model: string | null;
  user_model: string | null;
  seed: number | null;
  timings: { seconds?: number; model_seconds?: number; retries?: number; [key: string]: Json | undefined } | null;
  finished: number | null;
  branch: { number?: number; reason?: string; parent?: string | null; shared_messages?: number; [key: string]: Json | undefined } | null;
  error: { kind: string; text: string } | null;
  is_exact: boolean;
  drift_causes: string[];
  /** Remarks made while the attempt was live. */
  live_marks: string[];
  scores: Score[];
  brief: string | null;
  task: { info: JsonObject | null; actions: Json[] | null } | null;
  system: string | null;
  tools: Json[];
  messages: ShownMessage[];
  spans: Span[];
  context: { message: number; prompt_tokens: number }[];
  marks: Mark[];
  filtered: JsonObject | null;
  siblings: { id: string; author: string | null; status: string; success: boolean; scored: boolean; reward: number | null }[];
  sibling_count: number;
  has: { states: boolean; tokens: boolean; nodes: boolean };
  /** `last`: the last message behind which branches can be grown; null where it is the last of all. */
  can_grow: { ok: boolean; reason: string | null; last?: number | null; why?: string | null };
  commands: { show?: string; replay?: string; [name: string]: string | undefined };
}

export interface Sent {
  model: string | null;
  messages: JsonObject[];
  tools: Json[];
  shown: { index: number; state: "sent" | "folded" | "left_out" }[];
  note: string | null;
  curl: string;
  python: string;
}

export interface Change {
  path: (string | number)[];
  before: Json;
  after: Json;
}

export interface States {
  /** As `after`, only the rows that differ. */
  before: Json;
  after: Json;
  changes: { message: number; changes: Change[] }[];
  note: string | null;
}

export interface TokenStep {
  message: number;
  weight_version: string | null;
  is_exact: boolean;
  /** Tokens of the prompt that were there before. */
  shared: number;
  drift: string | null;
  tokens: { text: string | null; id: number | null; kind: "prompt" | "sampled" | "masked"; logprob: number | null }[];
}

export interface TokenPage {
  steps: TokenStep[];
  note: string | null;
}

export interface TreeLeaf {
  id: string;
  number: number;
  author: string | null;
  status: string;
  success: boolean;
  scored: boolean;
  reward: number | null;
  stop_reason: string;
}

export interface TreeNode {
  id: string;
  parent: string | null;
  kind: string;
  title: string;
  text: string;
  /** Answers of the agent in it. */
  steps: number;
  /** The place of its first message on the path. */
  message: number;
  leaf: TreeLeaf | null;
  /** An attempt whose path leads through it. */
  first_leaf: string | null;
  reason: string | null;
  value: number | null;
  visits: number | null;
  author: string | null;
}

export interface TreePage {
  task_id: string;
  nodes: TreeNode[];
  leaves: number;
}

export interface Attempts {
  attempts: number;
  scored: number;
  solved: number;
  reward: number | null;
}

export interface Parting {
  step: number;
  first: string;
  second: string;
  first_id: string;
  second_id: string;
}

export interface Flip {
  dataset: string;
  task_id: string;
  change: "gained" | "lost";
  first: Attempts;
  second: Attempts;
  second_dataset: string;
  parting: Parting | null;
}

export interface RunDiff {
  shared: number;
  compared: number;
  same: number;
  first: Attempts;
  second: Attempts;
  gained: number;
  lost: number;
  flips: Flip[];
  only_first: [string, string][];
  only_second: [string, string][];
  unscored: [string, string][];
}

export interface Queue {
  keys: { dataset: string; id: string; why: string }[];
}

export interface Play {
  number: number;
  dataset: string;
  task_id: string;
  id: string;
  role: "agent" | "user";
  state: string;
  /** What only the user knows, for a person who plays the user. */
  brief: string | null;
  /** What the agent is told, for a person who plays the agent. */
  system: string | null;
  messages: ShownMessage[];
  tools: Json[];
  waits_for: "agent" | "user" | null;
  error: string | null;
}

/** What a self-contained report holds (`<script type="application/json" id="rollout-data">`). */
export interface ReportData {
  run: RunRow;
  trajectories: TrajectoryPage[];
  /** Pictures by the names that the trajectories give, as data: addresses. */
  images?: Record<string, string>;
}
