/** Choose the labels of the map: in order of the points, skipping labels that would overlap. */
import { brief } from "../numbers";

export interface Name { readonly text: string; readonly x: number; readonly y: number }

/** Square pixels of the view per label. */
const EACH = 20_000;
/** After this many labels without space, stop trying. */
const ENOUGH = 4000;
/** Pixels: height of a line, approximate width of a letter, gap between a point and its label. */
const [LINE, LETTER, GAP] = [20, 7.6, 7];

export function placeNames(points: readonly number[], labels: readonly string[], at: (point: number) => readonly [number, number], room: readonly [number, number]): readonly Name[] {
  const names: (Name & { to: number })[] = [];
  const most = Math.ceil((room[0] * room[1]) / EACH);
  let crowded = 0;
  for (const point of points) {
    const [px, py] = at(point);
    if (px < 0 || py < LINE || px > room[0] || py > room[1] - LINE / 2) continue;
    const text = brief(labels[point] ?? "");
    const [x, to] = [px + GAP, px + GAP + LETTER * text.length];
    if (to > room[0] || names.some((other) => x < other.to && to > other.x && Math.abs(py - other.y) < LINE)) {
      if (++crowded > ENOUGH) break;
      continue;
    }
    names.push({ text, x, y: py, to });
    if (names.length >= most) break;
  }
  return names;
}
