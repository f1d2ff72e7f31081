/** What changes while one looks: server-sent events of one run, or polling where these do not get through. */

import { useEffect, useRef, useState } from "preact/hooks";
import { report } from "./report";

export type LiveKind = "run" | "index" | "marks" | "growth" | "play" | "poll";
export type LiveState = "off" | "connecting" | "live" | "polling";
type Listener = (kind: LiveKind, data: unknown) => void;

const KINDS = ["run", "index", "marks", "growth", "play"] as const;
const POLL_SECONDS = 5;
const FRESH_MS = 1000;
/** Failed connections in a row after which polling begins. A proxy that buffers events fails like this. */
const MOST_FAILURES = 3;

class Channel {
  private readonly listeners = new Set<Listener>();
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setInterval> | undefined;
  private failures = 0;
  private readonly begun = performance.now();
  private hasOpened = false;
  state: LiveState = "connecting";

  constructor(private readonly run: string) {
    document.addEventListener("visibilitychange", this.onVisibility);
    if (!document.hidden) this.open();
  }

  add(listener: Listener): void {
    this.listeners.add(listener);
  }

  /** Whether anybody still listens. */
  remove(listener: Listener): boolean {
    this.listeners.delete(listener);
    return this.listeners.size > 0;
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.source?.close();
    clearInterval(this.timer);
  }

  /** A hidden tab gives its connection back: a browser has six for a server, and those of some tabs would take all. */
  private readonly onVisibility = (): void => {
    if (this.state === "polling") return;
    this.source?.close();
    if (!document.hidden) this.open();
  };

  private open(): void {
    const source = new EventSource(`api/events${this.run ? `?run=${encodeURIComponent(this.run)}` : ""}`);
    this.source = source;
    source.onopen = () => {
      this.failures = 0;
      this.state = "live";
      // Whoever listens has just asked, unless the connection took its time or was lost.
      if (this.hasOpened || performance.now() - this.begun > FRESH_MS) this.tell("poll", null);
      this.hasOpened = true;
    };
    source.onerror = () => {
      this.failures += 1;
      this.state = "connecting";
      // A closed source does not try again by itself.
      if (this.failures >= MOST_FAILURES || source.readyState === EventSource.CLOSED) this.poll();
    };
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => this.tell(kind, readData(event.data as string)));
    }
  }

  private poll(): void {
    this.source?.close();
    this.state = "polling";
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      if (!document.hidden) this.tell("poll", null);
    }, POLL_SECONDS * 1000);
  }

  private tell(kind: LiveKind, data: unknown): void {
    for (const listener of [...this.listeners]) listener(kind, data);
  }
}

/** An event holds {run, data}. */
function readData(text: string): unknown {
  try {
    return (JSON.parse(text) as { data?: unknown }).data ?? null;
  } catch {
    return null;
  }
}

const channels = new Map<string, Channel>();

/** Calls `listener` for every change of the run; "" is the list of runs. `poll` means: ask again. */
export function useLive(run: string | null, listener: Listener): LiveState {
  const latest = useRef(listener);
  latest.current = listener;
  const [state, setState] = useState<LiveState>("off");
  useEffect(() => {
    if (run === null || report || typeof EventSource === "undefined") return;
    let channel = channels.get(run);
    if (!channel) {
      channel = new Channel(run);
      channels.set(run, channel);
    }
    const current = channel;
    const pass: Listener = (kind, data) => {
      setState(current.state);
      latest.current(kind, data);
    };
    setState(current.state);
    current.add(pass);
    return () => {
      if (!current.remove(pass)) {
        current.close();
        channels.delete(run);
      }
    };
  }, [run]);
  return state;
}
