/** The table of a study, models × datasets. A click on a number opens its runs. */
import { Fragment, type VNode } from "preact";
import { useId } from "preact/hooks";
import { count, decimals } from "../numbers";
import { Curves, type Point } from "./curves";

/** One model on one dataset. Optional fields are missing in reports of older versions and in cells without runs. */
export interface Cell {
  readonly dataset: string;
  readonly row: string;
  readonly form: string;
  readonly group: string;
  readonly rank: number;
  readonly seeds: readonly number[];
  readonly seeds_wanted: readonly number[];
  readonly mrr: number | null;
  readonly mrr_sd?: number | null;
  readonly parameters?: number | null;
  readonly relation_parameters?: number | null;
  readonly seconds?: number | null;
  readonly recipe?: { readonly epochs: number };
  readonly verdict: string;
  readonly hits_verdict?: string;
  readonly best: readonly string[];
  readonly runs?: readonly Ran[];
  readonly valid_mrr_by_epoch?: readonly Point[];
  readonly [measure: string]: unknown;
}
interface Ran {
  readonly seed: number;
  readonly mrr: number | null;
  readonly seconds_total: number | null;
  readonly command: string;
  readonly environment: { readonly name?: string };
}
interface Props {
  readonly cells: readonly Cell[];
  /** The datasets with at least one run. */
  readonly datasets: readonly string[];
  readonly measure: string;
  readonly opened: { readonly row: string; readonly dataset: string } | null;
  readonly open: (cell: Cell | null) => void;
}

export const MEASURES: Readonly<Record<string, string>> = { mrr: "MRR", hits1: "Hits@1", hits3: "Hits@3", hits10: "Hits@10" };
const GROUPS: Readonly<Record<string, string>> = { main: "Main results", ablation: "Ablations", control: "Controls" };

export function Outcomes({ cells, datasets, measure, opened, open }: Props): VNode {
  const id = useId();
  const rows = [...new Map(cells.map((cell) => [cell.row, cell.group]))];
  const groups = [...new Set(rows.map(([, group]) => group))];
  const waiting = [...new Set(cells.map((cell) => cell.dataset))].filter((one) => !datasets.includes(one));
  const find = (row: string, dataset: string): Cell | undefined => cells.find((cell) => cell.row === row && cell.dataset === dataset);
  const shown = opened && find(opened.row, opened.dataset);
  return (
    <>
      <div class="scroll outcomes" tabIndex={0} role="region" aria-label="Models by datasets">
        <table>
          <thead><tr><th scope="col">Model</th>{datasets.map((one) => <th key={one} scope="col" class="number">{one}</th>)}</tr></thead>
          {groups.map((group) => (
            <tbody key={group}>
              {groups.length > 1 && <tr class="group-name"><th scope="rowgroup" colSpan={datasets.length + 1}><span>{GROUPS[group] ?? group}</span></th></tr>}
              {rows.filter((one) => one[1] === group).map(([row]) => (
                <Fragment key={row}>
                  <tr>
                    <th scope="row">{row}</th>
                    {datasets.map((dataset) => {
                      const cell = find(row, dataset);
                      const isOpen = shown !== null && shown === cell;
                      return <td key={dataset} class="number"><Reading cell={cell} measure={measure} expanded={isOpen} controls={id} press={() => open(isOpen ? null : (cell ?? null))} /></td>;
                    })}
                  </tr>
                  {shown?.row === row && shown.seeds.length > 0 && <tr class="opened" id={id}><td colSpan={datasets.length + 1}><Behind cell={shown} /></td></tr>}
                </Fragment>
              ))}
            </tbody>
          ))}
        </table>
      </div>
      <p class="soft hint">
        Mean over seeds on the test facts; ± is the standard deviation, shown for at least two seeds.
        Bold: the best model of a dataset, and for MRR all models that Welch’s test cannot distinguish from it (a few seeds distinguish little).{groups.length > 1 && " Controls and untested ablations are excluded from this comparison."}
        {cells.some((cell) => typeof cell[`published_${measure}`] === "number") && " The second line is the published number."}
        {waiting.length > 0 && ` Not run yet: ${waiting.join(", ")}.`} Click a number to see its runs, settings and learning curve.
      </p>
    </>
  );
}

interface ReadingProps {
  readonly cell: Cell | undefined;
  readonly measure: string;
  readonly expanded: boolean;
  readonly controls: string;
  readonly press: () => void;
}

function Reading({ cell, measure, expanded, controls, press }: ReadingProps): VNode {
  const mean = cell?.[measure];
  if (!cell || typeof mean !== "number") return <span class="soft" title={cell?.verdict}>–</span>;
  const spread = cell[`${measure}_sd`];
  const printed = cell[`published_${measure}`];
  const text = <>{decimals(mean, 3)}{typeof spread === "number" && <span class="soft"> ±{decimals(spread, spread < 0.001 ? 4 : 3)}</span>}</>;
  return (
    <>
      <button type="button" class="quiet reading" aria-expanded={expanded} aria-controls={expanded ? controls : undefined} title={`${cell.seeds.length} of ${cell.seeds_wanted.length} seeds. ${cell.verdict}`} onClick={press}>
        {cell.best.includes(measure) ? <b>{text}</b> : text}
        <span class="hidden"> {cell.row} on {cell.dataset}</span>
      </button>
      {typeof printed === "number" && <div class="soft printed">{decimals(printed, 3)}</div>}
    </>
  );
}

/** The runs behind a number. */
function Behind({ cell }: { cell: Cell }): VNode {
  const { runs = [], valid_mrr_by_epoch: points = [] } = cell;
  const named = (key: string): string => (typeof cell[key] === "number" ? decimals(cell[key] as number, 3) : "–");
  const figures: readonly (readonly [string, string])[] = [
    ...Object.entries(MEASURES).map(([key, text]) => [text, named(key)] as const),
    ["Embedding rank", count(cell.rank)],
    ["Parameters", typeof cell.parameters === "number" ? count(cell.parameters) : "–"],
    ["Relation parameters", typeof cell.relation_parameters === "number" ? count(cell.relation_parameters) : "–"],
    ["Epochs", cell.recipe ? count(cell.recipe.epochs) : "–"],
    ["Seconds per epoch", typeof cell.seconds === "number" ? cell.seconds.toPrecision(3) : "–"],
    ["Seeds", `${cell.seeds.length} of ${cell.seeds_wanted.length}`],
  ];
  return (
    <div role="region" aria-label={`${cell.row} on ${cell.dataset}`}>
      <h3>{cell.row} on {cell.dataset}</h3>
      <p><code>{cell.form}</code> <span class="soft">{cell.hits_verdict ? `MRR ${cell.verdict}; Hits@n ${cell.hits_verdict}` : cell.verdict}</span></p>
      <dl class="figures">{figures.filter(([, value]) => value !== "–").map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {points.length > 0 && <Curves lines={[{ name: cell.row, colour: 0, points }]} what="MRR on validation facts" on={cell.dataset} />}
      {runs.length > 0 && (
        <ul class="ran">
          {runs.map((run) => (
            <li key={run.seed}>
              Seed {run.seed}: <b>{decimals(run.mrr, 3)}</b> <span class="soft">{run.seconds_total !== null && `in ${count(Math.round(run.seconds_total))} s`}{run.environment.name && ` on ${run.environment.name}`}</span> <code>{run.command}</code>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
