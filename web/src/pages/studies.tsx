/** Studies: models × datasets, from the reports that the service was given. */
import type { VNode } from "preact";
import type { PageProps } from "../app";
import { get, type StudyHead } from "../client";
import { decimals, plural } from "../numbers";
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
  readonly [measure: string]: unknown;
}
interface Report {
  readonly title: string;
  readonly cells: readonly Cell[];
  readonly left_out: readonly string[];
}

const MEASURES: Readonly<Record<string, string>> = { mrr: "MRR", hits1: "Hits@1", hits3: "Hits@3", hits10: "Hits@10" };

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
  const { title, cells, left_out } = found.value;
  const datasets = [...new Set(cells.map((cell) => cell.dataset))];
  const rows = [...new Set(cells.map((cell) => cell.row))];
  const at = new Map(cells.map((cell) => [`${cell.row}\n${cell.dataset}`, cell]));
  if (cells.length === 0) return <Nothing title="This study has no results yet" />;
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
      <p class="soft hint">Test set, mean over seeds; ± is their standard deviation, which one seed does not have. Bold: the best of a dataset, and for MRR what Welch’s test cannot tell from it. The second line is what the paper prints. Point at a number for form, rank and seeds.</p>
      {left_out.length > 0 && <details><summary>{plural(left_out.length, "run")} left out</summary><ul>{left_out.map((one) => <li key={one}>{one}</li>)}</ul></details>}
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
