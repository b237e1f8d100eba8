/** The comparisons of a study in words: is a difference more than chance? */
import type { VNode } from "preact";

export interface Test {
  readonly test: "welch" | "paired";
  readonly dataset: string;
  readonly measure: string;
  readonly a: string;
  readonly b: string;
  readonly p: number | null;
  readonly p_holm: number | null;
  readonly difference?: number;
  readonly low?: number;
  readonly high?: number;
}

const OBVIOUS = 0.001;
/** Column heads. A phone shows them before each value; the ARIA roles keep it a table for screen readers. */
const HEADS = ["MRR difference (first − second)", "Across seeds", "Across questions"] as const;

export function Comparisons({ tests, alpha, difference, on }: { tests: readonly Test[]; alpha: number; difference: (a: string, b: string) => number | null; on: string }): VNode {
  const pairs = [...new Map(tests.map((one) => [`${one.a}\n${one.b}`, one])).values()];
  const find = (kind: Test["test"], pair: Test): Test | undefined => tests.find((one) => one.test === kind && one.a === pair.a && one.b === pair.b);
  return (
    <>
      <div class="scroll comparisons" tabIndex={0} role="region" aria-label={`Comparisons on ${on}`}>
        <table role="table">
          <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Compared</th>{HEADS.map((head, i) => <th key={head} role="columnheader" scope="col" class={i ? "" : "number"}>{head}</th>)}</tr></thead>
          <tbody role="rowgroup">
            {pairs.map((pair) => {
              const [gap, paired] = [difference(pair.a, pair.b), find("paired", pair)];
              return (
                <tr key={`${pair.a}\n${pair.b}`} role="row">
                  <th role="rowheader" scope="row">{pair.a} <span class="soft">vs.</span> {pair.b}</th>
                  <td role="cell" data-head={HEADS[0]} class="number">{gap === null ? "–" : signed(gap)}</td>
                  <td role="cell" data-head={HEADS[1]}><Verdict of={find("welch", pair)} gap={gap} alpha={alpha} absent="needs at least 2 seeds each" /></td>
                  <td role="cell" data-head={HEADS[2]}><Verdict of={paired} gap={paired?.difference ?? null} alpha={alpha} absent="no stored ranks" /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="soft hint">“Better” means that p is below {alpha}. p is the probability of a difference at least this large by chance, with Holm’s correction for all comparisons on this dataset. Across seeds: Welch’s t-test checks whether the difference would hold for other seeds. Across questions: the paired test checks whether it would hold for other questions with these same models. With one seed each, the paired test cannot separate luck in training from a real difference. “No difference found” does not prove that there is none.</p>
    </>
  );
}

function Verdict({ of, gap, alpha, absent }: { of: Test | undefined; gap: number | null; alpha: number; absent: string }): VNode {
  const p = of?.p_holm ?? of?.p ?? null;
  if (!of || p === null || gap === null) return <span class="soft">{absent}</span>;
  const interval = of.low !== undefined && of.high !== undefined ? `, 95 % interval ${signed(of.low)} to ${signed(of.high)}` : "";
  return (
    <span title={`p ${chance(of.p ?? p)} before Holm’s correction, ${chance(p)} after${interval}`}>
      {p < alpha ? <b>{gap > 0 ? of.a : of.b} better</b> : "no difference found"} <span class="soft nowrap">p {chance(p)}</span>
    </span>
  );
}

const signed = (x: number): string => { const text = Math.abs(x).toFixed(3); return Number(text) === 0 ? text : `${x < 0 ? "−" : "+"}${text}`; };
const chance = (p: number): string => (p < OBVIOUS ? `< ${OBVIOUS}` : p.toPrecision(2));
