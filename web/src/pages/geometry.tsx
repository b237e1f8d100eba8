/** Geometry: the effect of a relation on one coordinate, drawn on the Riemann sphere; two runs side by side. */
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageProps } from "../app";
import { get, type GeometryView, type Relation, type RunView } from "../client";
import { Camera, type Complex, save, savePicture, type Sphere } from "../draw/sphere";
import { decimals, words } from "../numbers";
import { Combobox } from "../parts/combobox";
import { Symbol } from "../parts/marks";
import { findEntities, findRelations } from "../parts/search";
import { SphereCanvas } from "../parts/sphere";
import { Failure, Loading } from "../parts/states";
import { type Remote, useRemote } from "../remote";
import { go, href } from "../route";

const BEAT = 1200;
const MOST = 20;
type Changes = Record<string, string | number | null>;

export function GeometryPage(props: PageProps): VNode {
  const { run, query } = props;
  const first = useRemote<string>(query["relation"] ? null : run.name, async (signal) => {
    const found = await get<{ relations: readonly Relation[] }>("relations", { run: run.name, limit: 1 }, signal);
    return found.relations[0]?.name ?? "";
  });
  const relation = query["relation"] ?? first.value;
  if (first.state === "failed") return <><h1>Geometry</h1><Failure error={first.error} retry={first.retry} /></>;
  if (!relation) return <><h1>Geometry</h1><Loading lines={6} /></>;
  return <Shown {...props} relation={relation} />;
}

function useGeometry(run: string | null, wanted: Record<string, string | number | boolean | null | undefined>): Remote<GeometryView> {
  return useRemote<GeometryView>(run === null ? null : JSON.stringify({ run, ...wanted }), (signal) => get("geometry", { run, ...wanted }, signal));
}

function Shown({ run, runs, query, theme, relation }: PageProps & { relation: string }): VNode {
  const change = (changes: Changes): void => go(href("geometry", { ...query, ...changes }), "replace");
  const other = runs.find((one) => one.name === query["with"]);
  const iterates = Math.min(MOST, Math.max(1, Number(query["n"]) || 5));
  const shared = { relation, reverse: query["reverse"] ? true : null, iterates, reading: query["mobius"] ? "mobius" : null };
  const left = useGeometry(run.name, { ...shared, coordinate: query["i"], entity: query["entity"] });
  const entity = query["entity"] ?? (left.state === "ready" ? left.value.entity?.name : undefined);
  const right = useGeometry(other && left.state !== "loading" ? other.name : null, { ...shared, coordinate: query["j"], entity });

  const [linked, setLinked] = useState(true);
  const cameras = useMemo(() => [new Camera(), new Camera()] as const, []);
  const spheres = useRef<(Sphere | null)[]>([null, null]);
  const drawn = (): Sphere[] => spheres.current.filter((one): one is Sphere => one !== null);
  const [time, setTime] = useState<number | null>(null);
  const [playing, setPlaying] = useState(false);
  useEffect(() => {
    if (!playing) return;
    const began = performance.now() - BEAT * (iterates + (time ?? 0));
    let frame = requestAnimationFrame(function step(now) {
      setTime((((now - began) / BEAT) % (2 * iterates)) - iterates);
      frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [playing, iterates]);

  const scenes = [left, other ? right : null].flatMap((one) => (one?.state === "ready" && one.value.scene ? [one.value.scene] : []));
  const empty = left.state === "ready" && scenes.length === 0;
  const file = `sphere-${words(relation).replaceAll(/[^\p{L}\p{N}]+/gu, "-")}`;
  const asked = left.state === "ready" ? left.value.relation : { name: relation, label: relation };
  return (
    <>
      <h1>Geometry</h1>
      <p class="soft">What a relation does to one complex coordinate. The Riemann sphere shows every complex number as a point: 0 is the south pole, ∞ the north pole, the equator is the unit circle.</p>
      <div class="question geometry-choice">
        <Combobox label="Relation" clearable={false} value={asked} show={words} source={run.name} find={(text, signal) => findRelations(run.name, text, signal)}
          pick={(one) => { if (one) change({ relation: one.name, i: null, j: null, entity: null }); }} />
        <Combobox label="Entity" hint="The circle is drawn around the coordinate of this entity" clearable={Boolean(query["entity"])} value={left.state === "ready" ? left.value.entity : null} source={run.name} find={(text, signal) => findEntities(run.name, text, signal)}
          pick={(one) => change({ entity: one?.name ?? null })} />
        <div class="options-row">
          <label title="How many times the relation is applied, forwards and backwards">Repetitions <select value={iterates} onChange={(event) => change({ n: event.currentTarget.value === "5" ? null : event.currentTarget.value })}>
            {[1, 2, 3, 5, 8, 12, 20].map((n) => <option key={n} value={n}>{n}</option>)}
          </select></label>
          <label class="check" title="Use the relation from tail to head"><input type="checkbox" checked={Boolean(query["reverse"])} onChange={(event) => change({ reverse: event.currentTarget.checked ? 1 : null, i: null, j: null, entity: null })} /> Reversed</label>
        </div>
      </div>
      <div class={`spheres ${other ? "two" : ""}`}>
        <Side side="left" run={run} runs={runs} found={left} theme={theme} camera={cameras[0]} time={time} change={change}
          choose={(name) => change({ run: name, i: null })} coordinate={(i) => change({ i })} ready={(one) => { spheres.current[0] = one; }} />
        {other && (
          <Side side="right" run={other} runs={runs} found={right} theme={theme} camera={linked ? cameras[0] : cameras[1]} time={time} change={change}
            choose={(name) => change({ with: name, j: null })} coordinate={(j) => change({ j })} ready={(one) => { spheres.current[1] = one; }} />
        )}
      </div>
      <div class="tools sphere-tools">
        {!empty && <>
          <button type="button" aria-pressed={playing} disabled={scenes.length === 0} onClick={() => setPlaying(!playing)}>{playing ? "Stop" : "Play the motion"}</button>
          <label>t <input type="range" min={-iterates} max={iterates} step="0.01" value={time ?? 0} aria-label="Time of the motion"
            onInput={(event) => { setPlaying(false); setTime(event.currentTarget.valueAsNumber); }} /> <output>{decimals(time ?? 0)}</output></label>
          <button type="button" onClick={() => { setPlaying(false); setTime(null); cameras.forEach((one) => one.home()); }}>Reset view</button>
        </>}
        {runs.length > 1 && (
          <label>Compare with <select value={other?.name ?? ""} onChange={(event) => change({ with: event.currentTarget.value || null, j: null })}>
            <option value="">none</option>
            {runs.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
          </select></label>
        )}
        {other && <label class="check"><input type="checkbox" checked={linked} onChange={(event) => {
          if (!event.currentTarget.checked) Object.assign(cameras[1], { longitude: cameras[0].longitude, latitude: cameras[0].latitude });
          setLinked(event.currentTarget.checked);
        }} /> Turn together</label>}
        {!empty && <>
          <button type="button" disabled={scenes.length === 0} onClick={() => savePicture(drawn(), `${file}.png`)}>Save PNG</button>
          <button type="button" disabled={scenes.length === 0} onClick={() => save(`${file}.json`, new Blob([JSON.stringify(scenes, null, 1)], { type: "application/json" }))}>Save data</button>
        </>}
      </div>
      {!empty && <>
        <ul class="legend sphere-legend" aria-label="Legend">
          <li><span class="stroke blue" /> circle around an entity</li>
          <li><span class="stroke green" /> its images under the relation, θⁿ</li>
          <li><span class="stroke red" /> its images under the inverse, θ⁻ⁿ</li>
          <li><span class="stroke way" /> continuous motion between the images, θᵗ</li>
          <li>● attracting, ○ repelling, ◆ other fixed points</li>
        </ul>
        <p class="soft hint">Drag or use the arrow keys to turn; double-click to reset. Each coordinate has its own map. The list of coordinates starts with those that add most to the scores of the relation’s facts.</p>
      </>}
    </>
  );
}

interface SideProps {
  readonly side: "left" | "right";
  readonly run: RunView;
  readonly runs: readonly RunView[];
  readonly found: Remote<GeometryView>;
  readonly theme: PageProps["theme"];
  readonly camera: Camera;
  readonly time: number | null;
  readonly change: (changes: Changes) => void;
  readonly choose: (run: string) => void;
  readonly coordinate: (i: number) => void;
  readonly ready: (sphere: Sphere | null) => void;
}

function Side({ side, run, runs, found, theme, camera, time, change, choose, coordinate, ready }: SideProps): VNode {
  const view = found.state === "ready" ? found.value : found.state === "loading" ? found.stale : null;
  const order = useMemo(() => (view ? [...view.coordinates.weight.keys()].sort((a, b) => (view.coordinates.weight[b] ?? 0) - (view.coordinates.weight[a] ?? 0)) : []), [view]);
  return (
    <section class="card sphere" aria-label={`Sphere of ${run.name}`}>
      <div class="tools">
        <label>Run <select value={run.name} aria-label={`Run on the ${side}`} onChange={(event) => choose(event.currentTarget.value)}>
          {runs.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
        </select></label>
        {view?.scene && (
          <label title="The kind of each coordinate’s map, and how much the coordinate adds to the scores. Elliptic: turns. Hyperbolic: stretches. Loxodromic: turns and stretches. Parabolic: shifts.">Coordinate <select value={view.scene.coordinate} aria-label={`Coordinate on the ${side}`} onChange={(event) => coordinate(Number(event.currentTarget.value))}>
            {order.map((i) => <option key={i} value={i}>{`${i}: ${view.coordinates.kind[i] ?? ""}, ${decimals(view.coordinates.weight[i])}`}</option>)}
          </select></label>
        )}
      </div>
      {found.state === "failed" ? (
        <Failure error={found.error} retry={found.retry} />
      ) : !view ? (
        <Loading lines={8} what="Loading the relation" />
      ) : view.scene ? (
        <>
          <p class="sphere-words"><b><Symbol text={view.symbol} /></b> <span class="soft">{view.scene.words}</span></p>
          <SphereCanvas scene={view.scene} camera={camera} theme={theme} time={time} ready={ready} />
          <p class="soft hint">{view.note}</p>
          <details>
            <summary>Numbers</summary>
            <table class="matrix"><tbody>
              {["a", "b", "c", "d"].map((name, i) => <tr key={name}><th scope="row">{name}</th><td>{written(view.scene?.matrix[i])}</td></tr>)}
              {view.scene.stretch !== null && <tr><th scope="row">stretch</th><td>{view.scene.stretch.toPrecision(4)}</td></tr>}
              {view.scene.turn !== null && <tr><th scope="row">turn</th><td>{decimals((view.scene.turn * 180) / Math.PI, 1)}°</td></tr>}
              {view.scene.fixed.map((one, i) => <tr key={i}><th scope="row">{one.role}</th><td>({one.place.map((x) => decimals(x, 3)).join(", ")})</td></tr>)}
            </tbody></table>
          </details>
        </>
      ) : (
        <div class="notice">
          <p><b><Symbol text={view.symbol} />: this relation is not a Möbius map</b></p>
          <p>{view.note}</p>
          {view.form.startsWith("FiveStar") && <button type="button" onClick={() => change({ mobius: 1 })}>Draw it as the Möbius map with the same a, b, c, d</button>}
        </div>
      )}
    </section>
  );
}

function written(z: Complex | undefined): string {
  return z ? `${z[0].toFixed(4)} ${z[1] < 0 ? "−" : "+"} ${Math.abs(z[1]).toFixed(4)} i` : "–";
}
