/** The frame around every page: header with navigation and theme, footer with the run. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, keepToken, RequestError, type RunView, type Runs } from "./client";
import { ApiPage } from "./pages/api";
import { AskPage } from "./pages/ask";
import { EntityPage } from "./pages/entity";
import { RelationsPage } from "./pages/relations";
import { Symbol } from "./parts/marks";
import { Failure, Loading, Nothing } from "./parts/states";
import { compact, decimals, HITS_HINT, MRR_HINT, plural } from "./numbers";
import { useRemote } from "./remote";
import { go, href, nameTab, type Page, PAGES, type Query, useRoute } from "./route";
import { type Theme, useTheme } from "./theme";

export interface PageProps {
  readonly run: RunView;
  readonly runs: readonly RunView[];
  readonly query: Query;
  readonly theme: Theme;
  /** The address of a page, keeping the selected run. */
  readonly link: (page: Page, wanted?: Record<string, string | number | null | undefined>) => string;
}

/** A page whose code is loaded when it is first opened. */
function later(load: () => Promise<(props: PageProps) => VNode>): (props: PageProps) => VNode {
  return function Later(props: PageProps): VNode {
    const found = useRemote("page", () => load().catch(() => { throw unloaded(); }));
    if (found.state === "failed") return <Failure error={found.error} retry={found.retry} />;
    return found.state === "ready" ? <found.value {...props} /> : <Loading lines={3} />;
  };
}

function unloaded(): RequestError {
  return new RequestError(0, "This page could not be loaded.", "Check that “conjoin serve” is running. If it was updated, reload the page.");
}

const SHOWN: Readonly<Record<Page, (props: PageProps) => VNode>> = {
  ask: AskPage,
  entity: EntityPage,
  map: later(() => import("./pages/map").then((loaded) => loaded.MapPage)),
  relations: RelationsPage,
  geometry: later(() => import("./pages/geometry").then((loaded) => loaded.GeometryPage)),
  studies: later(() => import("./pages/studies").then((loaded) => loaded.StudiesPage)),
  api: ApiPage,
};
const TITLES: Readonly<Record<Page, string>> = {
  ask: "Ask",
  entity: "Entity",
  map: "Map",
  relations: "Relations",
  geometry: "Geometry",
  studies: "Studies",
  api: "API",
};

export function App(): VNode {
  const { page, query } = useRoute();
  const [theme, turn] = useTheme();
  const [entered, setEntered] = useState(0);
  const runs = useRemote<Runs>(`runs ${entered}`, (signal) => get("runs", {}, signal));
  useEffect(() => {
    if (page !== "ask" && page !== "entity") nameTab(page === "relations" ? query["relation"] : null, page && TITLES[page]);
  }, [page, query]);

  const first = useRef(true);
  const subject = page === "entity" ? query["name"] : page === "relations" ? query["relation"] : null;
  useEffect(() => {
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (!first.current) document.getElementById("content")?.focus({ preventScroll: true });
    first.current = false;
  }, [page, subject]);

  const run = runs.value?.runs.find((one) => one.name === query["run"]) ?? (query["run"] ? undefined : runs.value?.runs[0]);
  const keep = query["run"] ?? null;
  const link: PageProps["link"] = (to, wanted = {}) => href(to, { ...wanted, run: keep });
  return (
    <>
      <a class="skip" href="#content">Skip to the content</a>
      <header class="frame">
        <a class="mark" href={link("ask")} aria-label="Conjoin home" data-top>
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <path d="M3 16h26" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" />
            <circle class="upper" cx="18" cy="7" r="4.5" />
            <circle class="lower" cx="18" cy="25" r="4.5" />
          </svg>
          <span>Conjoin</span>
        </a>
        <nav aria-label="Pages">
          {PAGES.map((one) => (
            <a key={one} href={link(one)} aria-current={one === page ? "page" : undefined} data-top>{TITLES[one]}</a>
          ))}
        </nav>
        <button type="button" class="quiet theme" onClick={turn} aria-label={theme === "dark" ? "Switch to light theme" : "Switch to dark theme"}>
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <circle cx="10" cy="10" r="7" fill="none" stroke="currentColor" stroke-width="1.6" />
            <path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor" />
          </svg>
        </button>
      </header>
      <main id="content" tabIndex={-1}>
        {runs.state === "failed" && runs.error.status === 401 ? (
          <TokenForm wrong={entered > 0} enter={(token) => { keepToken(token); setEntered((n) => n + 1); }} />
        ) : runs.state === "failed" ? (
          <Failure error={runs.error} retry={runs.retry} />
        ) : runs.state === "loading" ? (
          <Loading lines={6} />
        ) : page === null ? (
          <><h1 class="hidden">Not found</h1><Nothing title="Page not found"><a href={link("ask")}>Go to the start page</a></Nothing></>
        ) : !run ? (
          <><h1 class="hidden">{TITLES[page]}</h1><Nothing title={`This service has no run named “${query["run"] ?? ""}”`}>
            Available runs: {runs.value.runs.map((one, i) => <>{i > 0 && ", "}<a href={href(page, { ...query, run: one.name })}>{one.name}</a></>)}
          </Nothing></>
        ) : (
          Shown(page, { run, runs: runs.value.runs, query, theme, link })
        )}
      </main>
      {run && runs.value && <Footer run={run} runs={runs.value} page={page} query={query} />}
    </>
  );
}

function Shown(page: Page, props: PageProps): VNode {
  const Page = SHOWN[page];
  return <Page key={page} {...props} />;
}

/** The selected run and its quality, at the end of every page. */
function Footer({ run, runs, page, query }: { run: RunView; runs: Runs; page: Page | null; query: Query }): VNode {
  const measured = run.metrics.test ?? run.metrics.valid;
  return (
    <footer class="frame">
      <label>
        <span class="soft" title="A run is one trained model">Run</span>{" "}
        {runs.runs.length > 1 ? (
          <select
            value={run.name}
            onChange={(event) => go(href(page ?? "ask", { ...query, run: event.currentTarget.value, with: null }))}
          >
            {runs.runs.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
          </select>
        ) : (
          <b>{run.name}</b>
        )}
      </label>
      <span title={`Form ${run.form}: the scoring function. Rank: the number of coordinates of an embedding.`}><Symbol text={run.symbol} />, rank {run.rank}</span>
      <span>{run.data}: {plural(run.entities, "entity", "entities")}, {plural(run.relations, "relation")}, {compact(run.train)} facts</span>
      {measured && measured.mrr !== null && (
        <span title={`${MRR_HINT} ${HITS_HINT}`}>
          MRR {decimals(measured.mrr, 3)}, Hits@10 {decimals(measured["hits@10"], 2)}
        </span>
      )}
      <span class="soft version">Conjoin {runs.conjoin}</span>
    </footer>
  );
}

function TokenForm({ wrong, enter }: { wrong: boolean; enter: (token: string) => void }): VNode {
  const [token, setToken] = useState("");
  return (
    <form class="token-form card" onSubmit={(event) => { event.preventDefault(); if (token) enter(token.trim()); }}>
      <h1>This service requires a token</h1>
      {wrong && <p role="alert">This token is wrong. Enter it again.</p>}
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="current-password" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
      <button type="submit" class="main">Continue</button>
      <p class="soft">The token was set when the service was started. This tab remembers it until you close the tab.</p>
    </form>
  );
}
