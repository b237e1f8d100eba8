/** Loading, failed and empty states, with the same look on every page. */
import type { ComponentChildren, VNode } from "preact";
import type { RequestError } from "../client";

export function Loading({ lines = 3, what = "Loading" }: { lines?: number; what?: string }): VNode {
  return (
    <div class="loading" role="status" aria-label={what}>
      {Array.from({ length: lines }, (_, i) => <div key={i} class="bone" style={{ width: `${92 - ((i * 37) % 45)}%` }} />)}
    </div>
  );
}

/** The hint for readers of the page: hints for programs (“GET /v1/…”) become “type” or “reload”. */
function pageHint({ status, hint }: RequestError): string {
  if (status === 401) return "Reload the page and enter the token.";
  if (/GET \/v1\/(entities|relations)/.test(hint)) return "Type a few letters to see matching names.";
  return hint.includes("GET /v1/") ? "Reload the page: the service was restarted with other runs or studies." : hint;
}

export function Failure({ error, retry }: { error: RequestError; retry?: () => void }): VNode {
  const hint = pageHint(error);
  const passing = error.status === 0 || error.status === 429 || error.status >= 500;
  return (
    <div class="notice failure" role="alert">
      <p><b>{error.message}</b></p>
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
