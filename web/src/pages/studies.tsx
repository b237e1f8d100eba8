/** Studies: models × datasets, from the reports that the service was given. */
import type { VNode } from "preact";
import type { PageProps } from "../app";
import { get, type StudyHead } from "../client";
import { classColour } from "../draw/colours";
import { decimals } from "../numbers";
import { Comparisons, type Test } from "../parts/comparisons";
import { Curves, dashes, type Point } from "../parts/curves";
import { Failure, Loading, Nothing } from "../parts/states";
import { useRemote } from "../remote";
import { go } from "../route";

interface Cell {
  readonly dataset: string;
  readonly row: string;
  readonly form: string;
  readonly group: string;
  readonly rank: number;
  readonly seeds: readonly number[];
  readonly seeds_wanted: readonly number[];
  readonly published_mrr: number | null;
  readonly verdict: string;
  readonly best: readonly string[];
  readonly valid_mrr_by_epoch?: readonly Point[];
  readonly [measure: string]: unknown;
}
interface Report {
  readonly title: string;
  readonly alpha?: number;
  readonly cells: readonly Cell[];
  readonly tests?: readonly Test[];
  readonly left_out: readonly string[];
}

const MEASURES: Readonly<Record<string, string>> = { mrr: "MRR", hits1: "Hits@1", hits3: "Hits@3", hits10: "Hits@10" };
const ALPHA = 0.05;
/** Curves shown before the reader chooses. */
const FIRST = 6;

export function StudiesPage(props: PageProps): VNode {
  const { query, link } = props;
  const found = useRemote<{ studies: readonly StudyHead[] }>("studies", (signal) => get("studies", {}, signal));
  if (found.state === "failed") return <><h1>Studies</h1><Failure refusal={found.refusal} retry={found.retry} /></>;
  if (found.state === "loading") return <><h1>Studies</h1><Loading lines={8} /></>;
  const { studies } = found.value;
  const chosen = studies.find((one) => one.name === query["study"]) ?? studies[0];
  return (
    <>
      <h1>Studies</h1>
      {!chosen ? (
        <div class="coming card">
          <div>
            <p class="lead">Models × datasets, measured the same way.</p>
            <p>A study trains many models on many graphs and compares them, with tests. Its table appears here once there is a report:</p>
            <pre><code>conjoin study run studies/atlas.toml{"\n"}conjoin study report studies/atlas.toml{"\n"}conjoin serve RUN --studies reports</code></pre>
          </div>
        </div>
      ) : (
        <>
          {studies.length > 1 && (
            <p><label>Study <select value={chosen.name} onChange={(event) => go(link("studies", { ...query, study: event.currentTarget.value }))}>
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
  if (found.state === "failed") return <Failure refusal={found.refusal} retry={found.retry} />;
  if (found.state === "loading") return <Loading lines={10} />;
  const { title, cells, left_out, tests = [], alpha = ALPHA } = found.value;
  const datasets = [...new Set(cells.map((cell) => cell.dataset))];
  const rows = [...new Set(cells.map((cell) => cell.row))];
  const at = new Map(cells.map((cell) => [`${cell.row}\n${cell.dataset}`, cell]));
  if (cells.length === 0) return <Nothing title="This study has no results yet" />;
  const dataset = datasets.find((one) => one === query["dataset"]) ?? datasets.find((one) => cells.some((cell) => cell.dataset === one && cell.seeds.length > 0)) ?? "";
  const mean = (row: string): number | null => { const mrr = at.get(`${row}\n${dataset}`)?.["mrr"]; return typeof mrr === "number" ? mrr : null; };
  const difference = (a: string, b: string): number | null => { const [one, other] = [mean(a), mean(b)]; return one === null || other === null ? null : one - other; };
  const compared = tests.filter((test) => test.dataset === dataset && test.measure === "mrr" && difference(test.a, test.b) !== null);
  return (
    <section aria-label={title}>
      <h2>{title || name}</h2>
      <label>Measure <select value={measure} onChange={(event) => go(link("studies", { ...query, measure: event.currentTarget.value }), "replace")}>
        {Object.entries(MEASURES).map(([key, text]) => <option key={key} value={key}>{text}</option>)}
      </select></label>
      <div class="scroll" tabIndex={0} role="region" aria-label="Models by datasets">
        <table>
          <thead><tr><th scope="col">Model</th>{datasets.map((one) => <th key={one} scope="col" class="number">{one}</th>)}</tr></thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row}>
                <th scope="row">{row}</th>
                {datasets.map((dataset) => <td key={dataset} class="number"><Reading cell={at.get(`${row}\n${dataset}`)} measure={measure} /></td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="soft hint">Test set, mean over seeds; ± is their standard deviation, which one seed does not have. Bold: the best of a dataset, and for MRR what Welch’s test cannot tell from it.{cells.some((cell) => typeof cell[`published_${measure}`] === "number") && " The second line is what the paper prints."} Point at a number for form, rank and seeds.</p>
      <div class="title-row">
        <h2>Is it more than chance{datasets.length > 1 && ` on ${dataset}`}?</h2>
        {datasets.length > 1 && <label>Dataset <select value={dataset} onChange={(event) => go(link("studies", { ...query, dataset: event.currentTarget.value, rows: null }), "replace")}>
          {datasets.map((one) => <option key={one} value={one}>{one}</option>)}
        </select></label>}
      </div>
      {compared.length > 0 ? <Comparisons tests={compared} alpha={alpha} difference={difference} on={dataset} /> : <p class="soft">The report compares no two models that were run on {dataset}.</p>}
      <Learning key={dataset} cells={cells.filter((cell) => cell.dataset === dataset)} dataset={dataset} query={query} link={link} />
      {left_out.length > 0 && <details><summary>Left out: {left_out.length}</summary><ul>{left_out.map((one) => <li key={one}>{one}</li>)}</ul></details>}
    </section>
  );
}

function Learning({ cells, dataset, query, link }: Pick<PageProps, "query" | "link"> & { cells: readonly Cell[]; dataset: string }): VNode {
  const lines = cells.map((cell) => ({ name: cell.row, group: cell.group, points: cell.valid_mrr_by_epoch ?? [] })).filter((line) => line.points.length > 0).map((line, colour) => ({ ...line, colour }));
  const usual = (lines.some((line) => line.group === "main") ? lines.filter((line) => line.group === "main") : lines).slice(0, FIRST).map((line) => line.name);
  const chosen = query["rows"] === undefined ? usual : query["rows"].split(",").map(decodeURIComponent);
  const shown = lines.filter((line) => chosen.includes(line.name));
  const turn = (name: string): void => {
    const next = lines.map((line) => line.name).filter((one) => chosen.includes(one) !== (one === name));
    go(link("studies", { ...query, rows: next.map(encodeURIComponent).join(",") || "," }), "replace");
  };
  return (
    <section aria-label="Learning curves">
      <h2>Learning curves on {dataset}</h2>
      {lines.length === 0 ? <p class="soft">No run on {dataset} ranked valid while it was trained (<code>validate_every</code>), or the report is of an older version: <code>conjoin study report</code> writes it anew.</p> : (
        <>
          <div class="legend" role="group" aria-label="Models to draw">
            {lines.map((line) => (
              <label key={line.name} class="check">
                <input type="checkbox" checked={chosen.includes(line.name)} onChange={() => turn(line.name)} />
                <svg width="26" height="8" aria-hidden="true"><line x1="0" x2="26" y1="4" y2="4" stroke={classColour(line.colour)} stroke-width="2.5" stroke-dasharray={dashes(line.colour)} /></svg>
                {line.name}
              </label>
            ))}
          </div>
          {shown.length > 0 ? <Curves lines={shown} what="MRR on valid" on={dataset} /> : <p class="soft">Choose at least one model.</p>}
        </>
      )}
    </section>
  );
}

function Reading({ cell, measure }: { cell: Cell | undefined; measure: string }): VNode {
  const mean = cell?.[measure];
  if (!cell || typeof mean !== "number") return <span class="soft">–</span>;
  const spread = cell[`${measure}_sd`];
  const printed = cell[`published_${measure}`];
  const text = <>{decimals(mean, 3)}{typeof spread === "number" && <span class="soft"> ±{decimals(spread, 3)}</span>}</>;
  return (
    <span title={`${cell.form}, rank ${cell.rank}, ${cell.seeds.length} of ${cell.seeds_wanted.length} seeds. ${cell.verdict}`}>
      {cell.best.includes(measure) ? <b>{text}</b> : text}
      {typeof printed === "number" && <><br /><span class="soft">{decimals(printed, 3)}</span></>}
    </span>
  );
}
