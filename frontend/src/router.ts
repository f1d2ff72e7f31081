/** Every view is an address: the part behind `#`, as `#/run/NAME/t/DATASET/ID?at=7`.
 *
 * The server sees only the document, so the page works behind any path prefix. */

import { useEffect, useState } from "preact/hooks";

export interface Route {
  path: string[];
  query: URLSearchParams;
}

/** What narrows and orders a list of trajectories. It goes with a trajectory's address, so that next and previous follow the list. */
export const LIST_KEYS = [
  "q", "dataset", "status", "stop_reason", "success", "score", "min_reward", "max_reward", "mark", "label", "tool", "tool_error", "model",
  "author", "cause", "filter", "task", "by", "sort", "desc",
] as const;

export function parseHash(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { path: path.split("/").filter(Boolean).map(decodeSafely), query: new URLSearchParams(query) };
}

function decodeSafely(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

type QueryValue = string | number | boolean | null | undefined | readonly string[];

export function href(path: readonly (string | number)[], query?: URLSearchParams | Record<string, QueryValue>): string {
  const text = query instanceof URLSearchParams ? query.toString() : makeQuery(query ?? {}).toString();
  return `#/${path.map((part) => encodeURIComponent(String(part))).join("/")}${text ? `?${text}` : ""}`;
}

export function makeQuery(values: Record<string, QueryValue>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "" || value === false) continue;
    if (Array.isArray(value)) for (const each of value) query.append(name, each);
    else query.set(name, value === true ? "1" : String(value));
  }
  return query;
}

/** The same query with some values changed; null takes one away. */
export function changed(query: URLSearchParams, values: Record<string, QueryValue>): URLSearchParams {
  const result = new URLSearchParams(query);
  for (const name of Object.keys(values)) result.delete(name);
  for (const [name, value] of makeQuery(values)) result.append(name, value);
  return result;
}

export function listQuery(query: URLSearchParams): URLSearchParams {
  const result = new URLSearchParams();
  for (const name of LIST_KEYS) for (const value of query.getAll(name)) result.append(name, value);
  return result;
}

export function go(address: string, { replace = false }: { replace?: boolean } = {}): void {
  if (replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = address;
  }
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseHash(location.hash));
  useEffect(() => {
    const update = () => setRoute(parseHash(location.hash));
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}

export const runPath = (run: string): string[] => ["run", run];
export const trajectoryPath = (run: string, key: { dataset: string; id: string }): string[] => ["run", run, "t", key.dataset, key.id];
export const treePath = (run: string, dataset: string, task: string): string[] => ["run", run, "tree", dataset, task];
