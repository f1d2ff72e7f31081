/** What is shown instead of content: an error as the server wrote it, something that loads, or nothing found. */

import type { ComponentChildren, VNode } from "preact";
import { ApiError } from "../api";

export function Problem({ error, retry }: { error: Error; retry?: () => void }): VNode {
  const isLocked = error instanceof ApiError && error.status === 401;
  return (
    <div class="notice is-problem" role="alert">
      <p>{error.message}</p>
      {isLocked && <p>Open the address that rollout view printed: it holds the token.</p>}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ what }: { what: string }): VNode {
  return (
    <div class="notice is-loading" role="status">
      Loading {what}…
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }): VNode {
  return <div class="notice">{children}</div>;
}
