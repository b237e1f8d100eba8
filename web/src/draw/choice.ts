/** The selected points of the map, and the colours and sizes of all points. */
import type { MapView } from "../client";
import { channels, CLASSES, colour } from "./colours";
import { inside, type Paint, type Polygon, type View, WHOLE } from "./scatter";

const CORNERS = 40;
const OUTLIERS = 0.002;

/** Ascending indices of the points that match text, class, polygon and focus; null if none of these is set. */
export function chosenPoints(map: MapView, wanted: { q: string; only: string; ring: string; focus: string }): readonly number[] | null {
  const text = wanted.q.trim().toLowerCase();
  const ring = readPolygon(wanted.ring);
  if (!text && !wanted.only && !ring && !wanted.focus) return null;
  const only = wanted.only ? Number(wanted.only) : null;
  const found: number[] = [];
  for (let i = 0; i < map.count; i++) {
    if (wanted.focus && map.names[i] !== wanted.focus) continue;
    if (only !== null && map.class[i] !== only) continue;
    if (text && !(map.labels[i] ?? "").toLowerCase().includes(text)) continue;
    if (ring && !inside(ring, map.x[i] ?? 0, map.y[i] ?? 0)) continue;
    found.push(i);
  }
  return found;
}

export function paintOf(map: MapView, chosen: readonly number[] | null, by: "class" | "degree"): Paint {
  const n = map.count;
  const palette = Array.from({ length: CLASSES }, (_, i) => channels(colour(`class-${i}`)));
  const [low, high] = [channels(colour("ramp-low")), channels(colour("ramp-high"))];
  const most = Math.log1p(Math.max(1, ...map.degree.slice(0, 100)));
  const lit = chosen && new Uint8Array(n);
  if (lit) for (const i of chosen) lit[i] = 1;
  const small = n > 20_000 ? 2.5 : n > 4_000 ? 4 : 6;
  const fewLit = chosen !== null && chosen.length <= 50;

  const colours = new Uint8Array(4 * n);
  const sizes = new Float32Array(n);
  const order = new Uint32Array(n);
  let under = 0;
  let over = n - (chosen?.length ?? n);
  // Entities with the most facts come first in the map and must be drawn last, on top of the others.
  for (let i = n - 1; i >= 0; i--) {
    const share = Math.log1p(map.degree[i] ?? 0) / most;
    const shade = by === "class" ? (palette[(map.class[i] ?? 0) % CLASSES] ?? low) : low.map((from, c) => from + Math.min(share, 1) * ((high[c] ?? 0) - from));
    const on = !lit || lit[i] === 1;
    for (let c = 0; c < 3; c++) colours[4 * i + c] = Math.round(255 * (shade[c] ?? 0));
    colours[4 * i + 3] = on ? (lit ? 255 : n > 20_000 ? 150 : 215) : n > 20_000 ? 18 : 36;
    sizes[i] = small * (0.8 + 0.9 * share) * (lit && on ? (fewLit ? 2 : 1.3) : 1);
    order[on ? over++ : under++] = i;
  }
  return { colours, sizes, order };
}

export function readPolygon(text: string): Polygon | null {
  const points = text.split(" ").map((pair) => pair.split(",").map(Number));
  const sound = points.filter((pair): pair is [number, number] => pair.length === 2 && pair.every(Number.isFinite));
  return sound.length > 2 ? sound : null;
}

export function writePolygon(polygon: Polygon): string {
  const every = Math.max(1, Math.ceil(polygon.length / CORNERS));
  return polygon.filter((_, i) => i % every === 0).map((pair) => pair.map((v) => v.toFixed(3)).join()).join(" ");
}

/** The view that contains nearly all points; a few far outliers are left outside. */
export function homeOf(map: MapView): View {
  const [left, right] = middle(map.x);
  const [low, high] = middle(map.y);
  const half = Math.max(right - left, high - low) / 2;
  return half > 0 ? { x: (left + right) / 2, y: (low + high) / 2, zoom: 1 / (1.1 * half) } : WHOLE;
}

function middle(values: readonly number[]): [number, number] {
  const sorted = Float32Array.from(values).sort();
  const cut = Math.floor(OUTLIERS * sorted.length);
  return [sorted[cut] ?? -1, sorted[sorted.length - 1 - cut] ?? 1];
}

export function readView(text: string): View | null {
  const [x, y, zoom] = text.split(",").map(Number);
  const sound = [x, y, zoom].every((value) => value !== undefined && Number.isFinite(value));
  return sound ? { x: x as number, y: y as number, zoom: zoom as number } : null;
}

export function writeView({ x, y, zoom }: View): string {
  return [x.toFixed(4), y.toFixed(4), zoom.toFixed(3)].join();
}
