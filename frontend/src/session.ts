/** What every view may ask: who we are, whether we may write, and short messages at the edge of the window. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Me } from "./types";

export interface Session {
  me: Me;
  canWrite: boolean;
  /** Says something for a few seconds, to screen readers, too. */
  say: (text: string, isError?: boolean) => void;
}

export const SessionContext = createContext<Session>({
  me: { version: "", author: "", read_only: true, runs: 0, can_grow: false },
  canWrite: false,
  say: () => undefined,
});

export const useSession = (): Session => useContext(SessionContext);

/** Runs something that may fail and says what went wrong. Returns whether it went well. */
export async function attempt(session: Session, act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    session.say(error instanceof Error ? error.message : String(error), true);
    return false;
  }
}
