/** The current page and its query. The address bar is the only place that stores the state of the page. */
import { useEffect, useState } from "preact/hooks";

export const PAGES = ["ask", "entity", "map", "relations", "geometry", "studies", "api"] as const;
export type Page = (typeof PAGES)[number];
export type Query = Readonly<Record<string, string>>;
export interface Route {
  readonly page: Page | null;
  readonly query: Query;
}
type Wanted = Record<string, string | number | null | undefined>;

const MOVED = "conjoin-moved";
/** Milliseconds without a running request, after which a page is assumed to have its final length. */
const PATIENCE = 3000;
const ROOT = new URL(".", document.baseURI);
let finding = new AbortController();

export function read(address: Location | URL = location): Route {
  const last = address.pathname.slice(ROOT.pathname.length).replace(/\/$/, "");
  const page = last === "" || last === "index.html" ? "ask" : (PAGES.find((known) => known === last) ?? null);
  return { page, query: Object.fromEntries(new URLSearchParams(address.search)) };
}

/** The address of a page. Empty parameters are omitted, so that equal states have equal addresses. */
export function href(page: Page, wanted: Wanted = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(wanted)) {
    if (value !== null && value !== undefined && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return new URL(page + (text ? `?${text}` : ""), ROOT).href;
}

/** Go to an address; `top` pushes and scrolls to the top, which a change of page always does. */
export function go(address: string, how: "push" | "replace" | "top" = "push"): void {
  if (address === location.href) return;
  const other = read(new URL(address)).page !== read().page;
  if (how === "replace") history.replaceState(history.state, "", address);
  else {
    storeScroll();
    finding.abort();
    history.pushState(null, "", address);
  }
  dispatchEvent(new Event(MOVED));
  if (how === "top" || other) scrollTo(0, 0);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const moved = (): void => setRoute(read());
    const back = (): void => { moved(); restoreScroll(); };
    let settle = 0;
    const scrolled = (): void => { clearTimeout(settle); settle = window.setTimeout(storeScroll, 200); };
    history.scrollRestoration = "manual";
    restoreScroll();
    addEventListener("popstate", back);
    addEventListener("scroll", scrolled, { passive: true });
    addEventListener("beforeunload", storeScroll);
    addEventListener(MOVED, moved);
    document.addEventListener("click", followInside);
    return () => {
      clearTimeout(settle);
      removeEventListener("popstate", back);
      removeEventListener("scroll", scrolled);
      removeEventListener("beforeunload", storeScroll);
      removeEventListener(MOVED, moved);
      document.removeEventListener("click", followInside);
    };
  }, []);
  return route;
}

/** Store the scroll position in the history entry, unless it is being restored. */
function storeScroll(): void {
  if (finding.signal.aborted) history.replaceState({ down: Math.round(scrollY) }, "");
}

/** Restore the scroll position once fetched content has made the page long enough, unless the reader scrolls first. */
function restoreScroll(): void {
  finding.abort();
  const reader = (finding = new AbortController());
  const down = (history.state as { down?: number } | null)?.down ?? 0;
  let until = performance.now() + PATIENCE;
  for (const touched of ["wheel", "touchstart", "keydown", "mousedown"]) addEventListener(touched, () => reader.abort(), { once: true, signal: reader.signal, passive: true });
  const look = (): void => {
    if (reader.signal.aborted) return;
    const waits = down > 0 && document.querySelector(".loading") !== null;
    if (waits) until = performance.now() + PATIENCE;
    const there = document.documentElement.scrollHeight - innerHeight >= down;
    if (there) scrollTo(0, down);
    if (waits || (!there && performance.now() < until)) requestAnimationFrame(look);
    else reader.abort();
  };
  requestAnimationFrame(look);
}

/** Plain clicks on links to our own pages navigate without a reload; the browser handles all others. */
function followInside(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  const target = new URL(link.href);
  if (target.hash || !target.pathname.startsWith(ROOT.pathname) || read(target).page === null) return;
  event.preventDefault();
  go(link.href, link.dataset["top"] === undefined ? "push" : "top");
}

/** Set the title of the tab, which history and bookmarks use too. */
export function nameTab(...parts: readonly (string | null | undefined)[]): void {
  document.title = [...parts, "Conjoin"].filter(Boolean).join(" · ");
}
