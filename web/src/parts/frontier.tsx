/** Size and quality of the models on one dataset. As in the report, the line connects the models that no smaller model beats. */
import type { VNode } from "preact";
import { compact, decimals } from "../numbers";
import { digits, ticks, useWidth } from "./axes";

export interface Sized { readonly name: string; readonly parameters: number; readonly mean: number; readonly sd: number | null; readonly main: boolean }

const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [320, 50, 16, 16, 44];
/** Models below this share of the best are only named, as in the report: they would flatten the plot. */
const FLOOR = 0.8;
/** Pixels: height of a name, width of a letter, gap between a point and its name. */
const [LINE, LETTER, GAP] = [15, 6.8, 16];
const STEPS = [1, 1.5, 2, 3, 5, 7];
const MOST = 8;
/** Sizes within this factor are marked in equal steps. */
const NEAR = 3;
/** Narrower plots name only the models on the line; wider plots reserve a margin for names. */
const WIDE = 600;

export function Frontier({ models, measure, on }: { models: readonly Sized[]; measure: string; on: string }): VNode {
  const [box, width] = useWidth();
  const floor = FLOOR * Math.max(...models.map((one) => one.mean));
  const shown = models.filter((one) => one.mean >= floor);
  const failed = models.filter((one) => one.mean < floor);
  const sizes = shown.map((one) => one.parameters);
  const margin = Math.max(1.01, (Math.max(...sizes) / Math.min(...sizes)) ** 0.06);
  const [small, large] = [Math.min(...sizes) / margin, Math.max(...sizes) * margin];
  const reach = shown.flatMap((one) => [one.mean - (one.sd ?? 0), one.mean + (one.sd ?? 0)]);
  const [low, high] = [Math.min(...reach), Math.max(...reach)];
  const levels = ticks(low - 0.05 * (high - low) - 0.001, high + 0.05 * (high - low) + 0.001, 6);
  const [bottom, top] = [Math.min(low, levels[0] ?? low), Math.max(high, levels.at(-1) ?? high)];
  const room = width > WIDE ? GAP + LETTER * Math.max(...shown.map((one) => one.name.length)) : 0;
  const x = (size: number): number => LEFT + ((width - LEFT - RIGHT - room) * Math.log(size / small)) / Math.log(large / small);
  const y = (value: number): number => TOP + ((HEIGHT - TOP - BOTTOM) * (top - value)) / Math.max(1e-9, top - bottom);
  const best = frontier(shown);
  const steps = best.map((one, i) => `${i ? `H${x(one.parameters).toFixed(1)}V` : `M${x(one.parameters).toFixed(1)} `}${y(one.mean).toFixed(1)}`).join("");
  const names = beside((width > WIDE ? shown : best).map((one) => ({ name: one.name, x: x(one.parameters), y: y(one.mean) })), width - RIGHT);
  const words = `${measure} by number of parameters on ${on}. No smaller model is better than ${best.map((one) => `${one.name} (${compact(one.parameters)}, ${decimals(one.mean, 3)})`).join(", ")}.`;
  return (
    <figure class="curves frontier">
      <div ref={box} class="plot">
        <svg width={width} height={HEIGHT} role="img" aria-label={words}>
          {levels.map((level) => <g key={level}><line class="grid" x1={LEFT} x2={width - RIGHT} y1={y(level)} y2={y(level)} /><text x={LEFT - 8} y={y(level) + 4} text-anchor="end">{decimals(level, digits(levels))}</text></g>)}
          {round(small, large).map((size) => <g key={size}><line class="grid" x1={x(size)} x2={x(size)} y1={HEIGHT - BOTTOM} y2={HEIGHT - BOTTOM + 5} /><text x={x(size)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">{compact(size)}</text></g>)}
          <text x={(LEFT + width - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">parameters</text>
          {best.length > 1 && <path class="steps" d={steps} />}
          {names.map((one) => <line key={one.name} class="leader" x1={one.x} y1={one.y} x2={one.at + (one.left ? 3 : -3)} y2={one.down} />)}
          {shown.map((one) => (
            <g key={one.name} class={one.main ? "main" : ""}>
              {one.sd !== null && <line class="spread" x1={x(one.parameters)} x2={x(one.parameters)} y1={y(one.mean - one.sd)} y2={y(one.mean + one.sd)} />}
              <circle cx={x(one.parameters)} cy={y(one.mean)} r="4.5"><title>{`${one.name}: ${decimals(one.mean, 3)}, ${compact(one.parameters)} parameters`}</title></circle>
            </g>
          ))}
          {names.map((one) => <text key={one.name} class="name" x={one.at} y={one.down + 4} text-anchor={one.left ? "end" : "start"}>{one.name}</text>)}
        </svg>
      </div>
      <figcaption class="soft">
        The line connects the models that no smaller model beats. Open dots are ablations and controls. Vertical bars show the standard deviation over seeds.{names.length < shown.length && " The table lists all models."}
        {failed.length > 0 && ` Too low to show: ${failed.map((one) => `${one.name} ${decimals(one.mean, 3)}`).join(", ")}.`}
      </figcaption>
      <details>
        <summary>Show as table</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label={`${measure} by size`}>
          <table>
            <thead><tr><th scope="col">Model</th><th scope="col" class="number">Parameters</th><th scope="col" class="number">{measure}</th></tr></thead>
            <tbody>{[...models].sort((a, b) => a.parameters - b.parameters || b.mean - a.mean).map((one) => <tr key={one.name}><th scope="row">{one.name}</th><td class="number">{one.parameters.toLocaleString("en")}</td><td class="number">{decimals(one.mean, 3)}</td></tr>)}</tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

function frontier(models: readonly Sized[]): readonly Sized[] {
  const best: Sized[] = [];
  for (const one of [...models].sort((a, b) => a.parameters - b.parameters || b.mean - a.mean)) {
    if (one.mean > (best.at(-1)?.mean ?? -Infinity)) best.push(one);
  }
  return best;
}

interface Dot { readonly name: string; readonly x: number; readonly y: number }
interface Named extends Dot { readonly at: number; readonly down: number; readonly left: boolean }

/** Place names next to their dots. Dots with overlapping names share a column, with a line from each name to its dot. */
function beside(dots: readonly Dot[], right: number): readonly Named[] {
  const long = (ones: readonly Dot[]): number => GAP + LETTER * Math.max(...ones.map((one) => one.name.length));
  const columns: Dot[][] = [];
  for (const dot of [...dots].sort((a, b) => a.x - b.x)) {
    const last = columns.at(-1);
    if (last && dot.x < Math.max(...last.map((one) => one.x)) + long(last)) last.push(dot);
    else columns.push([dot]);
  }
  return columns.flatMap((column) => {
    const [first, last] = [Math.min(...column.map((one) => one.x)), Math.max(...column.map((one) => one.x))];
    const left = last + long(column) > right && first - long(column) > LEFT;
    const at = left ? first - GAP : Math.min(last + GAP, right - long(column) + GAP);
    const sorted = [...column].sort((a, b) => a.y - b.y);
    const downs: number[] = [];
    for (const one of sorted) downs.push(Math.max(one.y, (downs.at(-1) ?? -Infinity) + LINE));
    return sorted.map((one, i) => ({ ...one, at, left, down: Math.min(downs[i] ?? 0, HEIGHT - BOTTOM - LINE * (sorted.length - 1 - i)) }));
  });
}

/** Round numbers between low and high, for a logarithmic axis. */
function round(low: number, high: number): number[] {
  if (high < NEAR * low) return ticks(low, high, MOST);
  const found = Array.from({ length: 14 }, (_, i) => STEPS.map((one) => one * 10 ** i)).flat().filter((size) => size >= low && size <= high);
  return found.filter((_, i) => i % Math.ceil(found.length / MOST) === 0);
}
