/** Numbers, times and words as people read them. */

const DASH = "–";
const numbers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? DASH : numbers.format(value);
}

/** A number with as many digits as it deserves: 0.25, 12.5, 1,234. */
export function number(value: number | null | undefined, digits = 2): string {
  if (value === null || value === undefined) return DASH;
  if (Number.isInteger(value)) return numbers.format(value);
  if (Math.abs(value) >= 1000) return numbers.format(value);
  return value.toFixed(Math.abs(value) >= 100 ? 1 : digits);
}

/** 12.3k, 4.5M: for columns that hold tokens. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return DASH;
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (Math.abs(value) >= size) return `${(value / size).toFixed(Math.abs(value) >= 10 * size ? 0 : 1)}${letter}`;
  }
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(part === whole || part === 0 ? 0 : 1)}%` : DASH;
}

export function reward(value: number | null | undefined): string {
  return value === null || value === undefined ? DASH : String(Math.round(value * 1000) / 1000);
}

export function money(value: number | null | undefined): string {
  if (value === null || value === undefined || value === 0) return DASH;
  return `$${value >= 100 ? numbers.format(value) : value >= 0.1 ? value.toFixed(2) : value.toPrecision(2)}`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return DASH;
  if (seconds < 0.001) return seconds > 0 ? "<1 ms" : "0 s";
  // Rounded before it is divided, so that no part becomes a whole one of the next.
  const ms = Math.round(seconds * 1000);
  if (ms < 1000) return `${ms} ms`;
  const tenths = Math.round(seconds * 10);
  if (tenths < 600) return `${(tenths / 10).toFixed(1)} s`;
  const full = Math.round(seconds);
  if (full < 3600) return `${Math.floor(full / 60)} min ${full % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const whole = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** When something was, short: the hour today, the day and the hour before. */
export function when(seconds: number | null | undefined, now = Date.now()): string {
  if (seconds === null || seconds === undefined) return DASH;
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date(now).toDateString();
  return isToday ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

export function wholeDate(seconds: number | null | undefined): string {
  return seconds === null || seconds === undefined ? "unknown" : whole.format(new Date(seconds * 1000));
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** `trip~+2` of the task `trip` → `~+2`: what tells an attempt from the others at its task. */
export function attemptName(id: string, task: string): string {
  return id.startsWith(task) ? id.slice(task.length) || "first" : id;
}

/** `user_stop` → `user stop`. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

export function firstLine(text: string, most = 140): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** Whether an address may become a link: model output may hold any scheme. */
export function isWebAddress(address: string | null | undefined): address is string {
  return !!address && /^https?:\/\//i.test(address);
}
