/** Studies: models × datasets, from the reports in the folder of `conjoin serve --studies`. */
import type { VNode } from "preact";
import type { PageProps } from "../app";
import { get, type StudyHead } from "../client";
import { classColour } from "../draw/colours";
import { Comparisons, type Test } from "../parts/comparisons";
import { Curves, dashes } from "../parts/curves";
import { Frontier, type Sized } from "../parts/frontier";
import { type Cell, MEASURES, Outcomes } from "../parts/outcomes";
import { Failure, Loading, Nothing } from "../parts/states";
import { HITS_HINT, MRR_HINT } from "../numbers";
import { useRemote } from "../remote";
import { go } from "../route";

interface Report {
  readonly title: string;
  readonly alpha?: number;
  readonly cells: readonly Cell[];
  readonly tests?: readonly Test[];
  readonly left_out: readonly string[];
}

const ALPHA = 0.05;
/** How many curves are shown at first. */
const FIRST = 6;

export function StudiesPage(props: PageProps): VNode {
  const { query, link } = props;
  const found = useRemote<{ studies: readonly StudyHead[] }>("studies", (signal) => get("studies", {}, signal));
  if (found.state === "failed") return <><h1>Studies</h1><Failure error={found.error} retry={found.retry} /></>;
  if (found.state === "loading") return <><h1>Studies</h1><Loading lines={8} /></>;
  const { studies } = found.value;
  const chosen = studies.find((one) => one.name === query["study"]) ?? studies[0];
  return (
    <>
      <h1>Studies</h1>
      {!chosen ? (
        <div class="coming card">
          <div>
            <p class="lead">Compare models on datasets, measured in the same way.</p>
            <p>A study trains several models on several graphs and tests their differences. These commands create a report and show it here:</p>
            <pre><code>conjoin study run studies/atlas.toml{"\n"}conjoin study report studies/atlas.toml{"\n"}conjoin serve RUN --studies reports</code></pre>
          </div>
        </div>
      ) : (
        <>
          {studies.length > 1 && (
            <p><label>Study <select value={chosen.name} onChange={(event) => go(link("studies", { study: event.currentTarget.value, measure: query["measure"] }))}>
              {studies.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
            </select></label></p>
          )}
          <One key={chosen.name} {...props} name={chosen.name} />
        </>
      )}
    </>
  );
}

function One({ name, query, link }: PageProps & { name: string }): VNode {
  const measure = MEASURES[query["measure"] ?? ""] ? (query["measure"] ?? "mrr") : "mrr";
  const found = useRemote<Report>(name, (signal) => get("study", { name }, signal));
  if (found.state === "failed") return <Failure error={found.error} retry={found.retry} />;
  if (found.state === "loading") return <Loading lines={10} />;
  const { title, cells, left_out, tests = [], alpha = ALPHA } = found.value;
  const ran = [...new Set(cells.filter((cell) => cell.seeds.length > 0).map((cell) => cell.dataset))];
  const dataset = ran.find((one) => one === query["dataset"]) ?? ran[0];
  if (dataset === undefined) return <Nothing title="This study has no results yet" />;
  const here = cells.filter((cell) => cell.dataset === dataset);
  const mean = (row: string): number | null => here.find((cell) => cell.row === row)?.mrr ?? null;
  const difference = (a: string, b: string): number | null => { const [one, other] = [mean(a), mean(b)]; return one === null || other === null ? null : one - other; };
  const compared = tests.filter((test) => test.dataset === dataset && test.measure === "mrr" && difference(test.a, test.b) !== null);
  const sized = here.flatMap((cell): Sized[] => (typeof cell.mrr === "number" && cell.parameters ? [{ name: cell.row, parameters: cell.parameters, mean: cell.mrr, sd: cell.mrr_sd ?? null, main: cell.group === "main" }] : []));
  return (
    <section aria-label={title}>
      <h2>{title || name}</h2>
      <label title={`${MRR_HINT} ${HITS_HINT}`}>Metric <select value={measure} onChange={(event) => go(link("studies", { ...query, measure: event.currentTarget.value }), "replace")}>
        {Object.entries(MEASURES).map(([key, text]) => <option key={key} value={key}>{text}</option>)}
      </select></label>
      <Outcomes cells={cells} datasets={ran} measure={measure} opened={query["cell"] === undefined ? null : { row: query["cell"], dataset }}
        open={(cell) => go(link("studies", { ...query, ...(cell ? { dataset: cell.dataset, rows: cell.dataset === dataset ? query["rows"] : null } : {}), cell: cell?.row }), "replace")} />
      <div class="title-row">
        <h2>Are the differences more than chance{ran.length > 1 && ` on ${dataset}`}?</h2>
        {ran.length > 1 && <label>Dataset <select value={dataset} onChange={(event) => go(link("studies", { ...query, dataset: event.currentTarget.value, rows: null, cell: null }), "replace")}>
          {ran.map((one) => <option key={one} value={one}>{one}</option>)}
        </select></label>}
      </div>
      {compared.length > 0 ? <Comparisons tests={compared} alpha={alpha} difference={difference} on={dataset} /> : <p class="soft">The report contains no comparison of models on {dataset}.</p>}
      {sized.length > 1 && <section aria-label="Size and quality"><h2>Size and quality on {dataset}</h2><Frontier models={sized} measure="Test MRR" on={dataset} /></section>}
      <Learning key={dataset} cells={here} dataset={dataset} query={query} link={link} />
      {left_out.length > 0 && <details><summary>Excluded: {left_out.length}</summary><ul>{left_out.map((one) => <li key={one}>{one}</li>)}</ul></details>}
    </section>
  );
}

/** The name of a row from the address; empty if a truncated link makes it invalid. */
function decoded(row: string): string {
  try {
    return decodeURIComponent(row);
  } catch {
    return "";
  }
}

function Learning({ cells, dataset, query, link }: Pick<PageProps, "query" | "link"> & { cells: readonly Cell[]; dataset: string }): VNode {
  const lines = cells.map((cell) => ({ name: cell.row, group: cell.group, points: cell.valid_mrr_by_epoch ?? [] })).filter((line) => line.points.length > 0).map((line, colour) => ({ ...line, colour }));
  const usual = (lines.some((line) => line.group === "main") ? lines.filter((line) => line.group === "main") : lines).slice(0, FIRST).map((line) => line.name);
  const chosen = query["rows"] === undefined ? usual : query["rows"].split(",").map(decoded);
  const shown = lines.filter((line) => chosen.includes(line.name));
  const turn = (name: string): void => {
    const next = lines.map((line) => line.name).filter((one) => chosen.includes(one) !== (one === name));
    go(link("studies", { ...query, rows: next.map(encodeURIComponent).join(",") || "," }), "replace");
  };
  return (
    <section aria-label="Learning curves">
      <h2>Learning curves on {dataset}</h2>
      {lines.length === 0 ? <p class="soft">There are no learning curves on {dataset}. Runs record them if the recipe sets <code>validate_every</code>. If the report is of an older version, run <code>conjoin study report</code> again.</p> : (
        <>
          <div class="legend" role="group" aria-label="Models to show">
            {lines.map((line) => (
              <label key={line.name} class="check">
                <input type="checkbox" checked={chosen.includes(line.name)} onChange={() => turn(line.name)} />
                <svg width="26" height="8" aria-hidden="true"><line x1="0" x2="26" y1="4" y2="4" stroke={classColour(line.colour)} stroke-width="2.5" stroke-dasharray={dashes(line.colour)} /></svg>
                {line.name}
              </label>
            ))}
          </div>
          {shown.length > 0 ? <Curves lines={shown} what="MRR on validation facts" on={dataset} /> : <p class="soft">Choose at least one model.</p>}
        </>
      )}
    </section>
  );
}
