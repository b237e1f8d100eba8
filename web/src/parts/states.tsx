/** Waiting, failing and finding nothing, each looking the same everywhere. */
import type { ComponentChildren, VNode } from "preact";
import type { Refused } from "../client";

export function Loading({ lines = 3, what = "Loading" }: { lines?: number; what?: string }): VNode {
  return (
    <div class="loading" role="status" aria-label={what}>
      {Array.from({ length: lines }, (_, i) => <div key={i} class="bone" style={{ width: `${92 - ((i * 37) % 45)}%` }} />)}
    </div>
  );
}

/** The way out as readers of the page need it: what tells programs to send a request tells them to type, or to reload. */
function wayOut({ status, hint }: Refused): string {
  if (status === 401) return "Reload the page: it asks for the token.";
  if (/GET \/v1\/(entities|relations)/.test(hint)) return "Type a part of the name into the field above: what is called so is suggested.";
  return hint.includes("GET /v1/") ? "Reload the page: the service was started anew, with others." : hint;
}

export function Failure({ refusal, retry }: { refusal: Refused; retry?: () => void }): VNode {
  const hint = wayOut(refusal);
  const passing = refusal.status === 0 || refusal.status === 429 || refusal.status >= 500;
  return (
    <div class="notice failure" role="alert">
      <p><b>{refusal.message}</b></p>
      {hint && <p>{hint}</p>}
      {passing && retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

export function Nothing({ title, children }: { title: string; children?: ComponentChildren }): VNode {
  return (
    <div class="notice">
      <p><b>{title}</b></p>
      {children && <p class="soft">{children}</p>}
    </div>
  );
}
