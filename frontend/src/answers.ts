/** Hooks that keep a view's data: the last answer stays until the next one is there, so that nothing flickers. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api";

export interface Answer<T> {
  data: T | null;
  error: Error | null;
  isLoading: boolean;
  reload: () => void;
}

type Path = readonly (string | number)[];

/** The answer to a GET request; `path` null asks nothing. A new address drops the former answer unless `keep`. */
export function useAnswer<T>(path: Path | null, query?: URLSearchParams, { keep = false }: { keep?: boolean } = {}): Answer<T> {
  const where = path === null ? null : JSON.stringify([path, query?.toString() ?? ""]);
  const [state, setState] = useState<{ where: string | null; data: T | null; error: Error | null; isLoading: boolean }>({
    where: null,
    data: null,
    error: null,
    isLoading: path !== null,
  });
  const [version, setVersion] = useState(0);
  useEffect(() => {
    if (path === null || where === null) return;
    const aborting = new AbortController();
    setState((before) =>
      before.where === where || keep
        ? { ...before, isLoading: true }
        : { where, data: null, error: null, isLoading: true },
    );
    get<T>(path, query, aborting.signal).then(
      (data) => setState({ where, data, error: null, isLoading: false }),
      (error: Error) => {
        if (!aborting.signal.aborted) setState((before) => ({ where, data: before.data, error, isLoading: false }));
      },
    );
    return () => aborting.abort();
  }, [where, version]);
  const reload = useCallback(() => setVersion((before) => before + 1), []);
  const isCurrent = state.where === where || keep;
  return { data: isCurrent ? state.data : null, error: isCurrent ? state.error : null, isLoading: state.isLoading, reload };
}

/** A function that runs at most once in `wait` ms, and always once after the last call. */
export function useThrottled(act: () => void, wait: number): () => void {
  const latest = useRef(act);
  latest.current = act;
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => () => clearTimeout(timer.current ?? undefined), []);
  return useCallback(() => {
    timer.current ??= setTimeout(() => {
      timer.current = null;
      latest.current();
    }, wait);
  }, [wait]);
}

export function useMedia(query: string): boolean {
  const [fits, setFits] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = () => setFits(list.matches);
    update();
    list.addEventListener("change", update);
    return () => list.removeEventListener("change", update);
  }, [query]);
  return fits;
}

export const NARROW = "(max-width: 760px)";

/** The width of an element in CSS pixels, kept up to date. */
export function useWidth<E extends Element>(): [(element: E | null) => void, number] {
  const [width, setWidth] = useState(0);
  const observer = useRef<ResizeObserver | null>(null);
  const attach = useCallback((element: E | null) => {
    observer.current?.disconnect();
    if (!element) return;
    setWidth(element.clientWidth);
    observer.current = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.current.observe(element);
  }, []);
  return [attach, width];
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · Rollout` : "Rollout";
  }, [title]);
}
