/** The canvas of the map. It follows the state in the address. */
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { MapView } from "../client";
import { homeOf, paintOf, readView, writePolygon, writeView } from "../draw/choice";
import { type Name, placeNames } from "../draw/names";
import { Scatter } from "../draw/scatter";
import { plural } from "../numbers";
import type { Theme } from "../theme";

interface Props {
  readonly map: MapView;
  readonly chosen: readonly number[] | null;
  readonly by: "class" | "degree";
  readonly theme: Theme;
  readonly lasso: boolean;
  readonly view: string;
  readonly focus: string;
  readonly moved: (view: string) => void;
  readonly encircled: (polygon: string) => void;
  readonly open: (point: number) => void;
}

const CLOSE = 4;

export function Points(props: Props): VNode {
  const { map, chosen, by, theme, lasso, view, focus } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const trace = useRef<SVGPolygonElement>(null);
  const scatter = useRef<Scatter | null>(null);
  const worth = useMemo(() => [...(chosen ?? map.names.keys())].sort((a, b) => (map.degree[b] ?? 0) - (map.degree[a] ?? 0)), [map, chosen]);
  const latest = useRef({ ...props, worth });
  latest.current = { ...props, worth };
  const [names, setNames] = useState<readonly Name[]>([]);
  const [pointed, setPointed] = useState<{ point: number; at: readonly [number, number] } | null>(null);
  const [failed, setFailed] = useState(false);
  const [restored, setRestored] = useState(0);

  useEffect(() => {
    if (!canvas.current || !trace.current) return;
    try {
      scatter.current = new Scatter(canvas.current, trace.current, Float32Array.from(map.x), Float32Array.from(map.y), {
        moved: (now) => latest.current.moved(writeView(now)),
        pointed: (point, at) => setPointed(point === null ? null : { point, at }),
        picked: (point) => latest.current.open(point),
        encircled: (polygon) => latest.current.encircled(writePolygon(polygon)),
        drawn: (at) => setNames(placeNames(latest.current.worth, map.labels, at, [canvas.current?.clientWidth ?? 0, canvas.current?.clientHeight ?? 0])),
        restored: () => setRestored((times) => times + 1),
      });
      scatter.current.lasso = latest.current.lasso;
    } catch {
      setFailed(true);
    }
    return () => {
      scatter.current?.end();
      scatter.current = null;
    };
  }, [map, restored]);
  useEffect(() => scatter.current?.paint(paintOf(map, chosen, by)), [map, chosen, by, theme, restored]);
  useEffect(() => {
    const at = focus && !view ? map.names.indexOf(focus) : -1;
    const home = homeOf(map);
    if (scatter.current) scatter.current.home = home;
    scatter.current?.look(readView(view) ?? (at < 0 ? home : { x: map.x[at] ?? 0, y: map.y[at] ?? 0, zoom: CLOSE * home.zoom }));
  }, [map, view, focus, restored]);
  useLayoutEffect(() => { if (scatter.current) scatter.current.lasso = lasso; }, [lasso]);

  if (failed) return <p class="notice">The map needs WebGL 2, which this browser does not support.</p>;
  const named = pointed && map.labels[pointed.point];
  return (
    <div class={`plane ${lasso ? "encircling" : ""} ${pointed ? "pointing" : ""}`}>
      <canvas key={restored} ref={canvas} tabIndex={0} role="img" aria-label={`${plural(map.count, "entity", "entities")} placed by ${map.method.toUpperCase()}. Arrow keys move, plus and minus zoom. Use the search field to list entities by name.`} />
      <svg aria-hidden="true"><polygon ref={trace} />{names.map((one) => <text key={one.text} x={one.x} y={one.y + 4}>{one.text}</text>)}</svg>
      {pointed && named && (
        <div class="tip" style={{ left: `${pointed.at[0]}px`, top: `${pointed.at[1]}px` }}>
          {named} <span class="soft">{plural(map.degree[pointed.point] ?? 0, "fact")}</span>
        </div>
      )}
    </div>
  );
}
