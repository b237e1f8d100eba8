/** Learning curves by epoch with a band over seeds, as a plot with a cursor and as a table. */
import type { VNode } from "preact";
import { useId, useState } from "preact/hooks";
import { classColour } from "../draw/colours";
import { decimals } from "../numbers";
import { digits, ticks, useWidth } from "./axes";

export interface Point { readonly epoch: number; readonly mean: number; readonly low: number; readonly high: number; readonly seeds: number }
export interface Line { readonly name: string; readonly colour: number; readonly points: readonly Point[] }

const [HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [300, 50, 18, 12, 40];
const DASHES = ["none", "8 4", "2 3", "10 3 2 3"];
/** Values below this share of the best last value are cut off, as in the report; they would flatten the curves. */
const FLOOR = 0.5;

export const dashes = (colour: number): string => DASHES[colour % DASHES.length] ?? "none";

export function Curves({ lines, what, on }: { lines: readonly Line[]; what: string; on: string }): VNode {
  const [box, width] = useWidth();
  const [chosen, choose] = useState<number | null>(null);
  const clip = useId();

  const epochs = [...new Set(lines.flatMap((line) => line.points.map((point) => point.epoch)))].sort((a, b) => a - b);
  const [first, last] = [epochs[0] ?? 0, epochs.at(-1) ?? 1];
  const at = chosen !== null && epochs.includes(chosen) ? chosen : last;
  const all = lines.flatMap((line) => line.points);
  const floor = FLOOR * Math.max(...lines.map((line) => line.points.at(-1)?.mean ?? 0));
  const [least, most] = [Math.max(floor, Math.min(...all.map((point) => point.low))), Math.max(...all.map((point) => point.high))];
  const levels = ticks(least, most, 7);
  const [bottom, top] = [Math.min(least, levels[0] ?? least), Math.max(most, levels.at(-1) ?? most)];
  const x = (epoch: number): number => LEFT + ((width - LEFT - RIGHT) * epoch) / Math.max(1, last);
  const y = (value: number): number => TOP + ((HEIGHT - TOP - BOTTOM) * (top - value)) / Math.max(1e-9, top - bottom);
  const values = lines.map((line) => ({ line, point: line.points.findLast((point) => point.epoch <= at) }));
  const ended = (point: Point | undefined): string => (point && point.epoch !== at ? ` (epoch ${point.epoch})` : "");
  const said = values.map(({ line, point }) => `${line.name} ${decimals(point?.mean, 3)}${ended(point)}`).join(", ");
  const nearest = (epoch: number): number => epochs.reduce((best, one) => (Math.abs(one - epoch) < Math.abs(best - epoch) ? one : best), last);
  const point = (event: PointerEvent & { currentTarget: HTMLElement }): void => {
    const from = event.currentTarget.getBoundingClientRect().left;
    choose(nearest(((event.clientX - from - LEFT) / (width - LEFT - RIGHT)) * last));
  };
  const key = (event: KeyboardEvent): void => {
    const place = epochs.indexOf(at);
    const steps: Readonly<Record<string, number>> = { ArrowLeft: place - 1, ArrowDown: place - 1, ArrowRight: place + 1, ArrowUp: place + 1, Home: 0, End: epochs.length - 1 };
    const next = steps[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(epochs[Math.max(0, Math.min(epochs.length - 1, next))] ?? last);
  };

  return (
    <figure class="curves">
      <div ref={box} class="plot" tabIndex={0} role="slider" aria-label={`${what} by epoch on ${on}`} aria-valuemin={first} aria-valuemax={last} aria-valuenow={at}
        aria-valuetext={`epoch ${at}: ${said}`} onPointerMove={point} onPointerDown={point} onKeyDown={key}>
        <svg width={width} height={HEIGHT} aria-hidden="true">
          <clipPath id={clip}><rect x={LEFT} y={TOP - 2} width={Math.max(0, width - LEFT - RIGHT + 2)} height={HEIGHT - TOP - BOTTOM + 4} /></clipPath>
          {levels.map((level) => <g key={level}><line class="grid" x1={LEFT} x2={width - RIGHT} y1={y(level)} y2={y(level)} /><text x={LEFT - 8} y={y(level) + 4} text-anchor="end">{decimals(level, digits(levels))}</text></g>)}
          {ticks(0, last, width < 450 ? 4 : 8).filter(Number.isInteger).map((epoch) => <text key={epoch} x={x(epoch)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">{epoch}</text>)}
          <text x={(LEFT + width - RIGHT) / 2} y={HEIGHT - 4} text-anchor="middle">epoch</text>
          <line class="cursor" x1={x(at)} x2={x(at)} y1={TOP} y2={HEIGHT - BOTTOM} />
          <g clip-path={`url(#${clip})`}>
            {lines.map((line) => line.points.some((one) => one.seeds > 1) && <path key={line.name} class="band" fill={classColour(line.colour)} d={`${path(line.points.map((one) => [x(one.epoch), y(one.high)]))}${path([...line.points].reverse().map((one) => [x(one.epoch), y(one.low)])).replace("M", "L")}Z`} />)}
            {lines.map((line) => <path key={line.name} class="line" stroke={classColour(line.colour)} stroke-dasharray={dashes(line.colour)} d={path(line.points.map((one) => [x(one.epoch), y(one.mean)]))} />)}
            {values.map(({ line, point: here }) => here && <circle key={line.name} cx={x(here.epoch)} cy={y(here.mean)} r="3.5" fill={classColour(line.colour)} />)}
          </g>
        </svg>
      </div>
      <figcaption class="soft">
        {what} after epoch {at}: {values.map(({ line, point: here }, i) => <span key={line.name}>{i > 0 && ", "}{line.name} <b>{decimals(here?.mean, 3)}</b>{ended(here)}</span>)}. Hover or use the arrow keys to see another epoch.{all.some((one) => one.seeds > 1) && " The band shows the range from the lowest to the highest seed."}
        {Math.min(...all.map((one) => one.low)) < floor && " Values below half of the best are cut off."}
      </figcaption>
      <details>
        <summary>Show as table</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label={`${what} by epoch`}>
          <table>
            <thead><tr><th scope="col">Epoch</th>{lines.map((line) => <th key={line.name} scope="col" class="number">{line.name}</th>)}</tr></thead>
            <tbody>{epochs.map((epoch) => <tr key={epoch}><th scope="row">{epoch}</th>{lines.map((line) => <Value key={line.name} point={line.points.find((one) => one.epoch === epoch)} />)}</tr>)}</tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

function Value({ point }: { point: Point | undefined }): VNode {
  if (!point) return <td class="number soft">–</td>;
  return <td class="number">{decimals(point.mean, 3)}{point.seeds > 1 && <span class="soft"> {decimals(point.low, 3)} to {decimals(point.high, 3)}</span>}</td>;
}

const path = (points: readonly (readonly [number, number])[]): string => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
