/** Map: every entity as a point; similar embeddings lie close together. */
import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { PageProps } from "../app";
import { get, type MapView } from "../client";
import { classColour } from "../draw/colours";
import { classWords, count, plural } from "../numbers";
import { Failure, Loading } from "../parts/states";
import { PointsList } from "../parts/points";
import { Points } from "../parts/scatter";
import { useDelayed, useRemote } from "../remote";
import { go } from "../route";
import { chosenPoints } from "../draw/choice";

const MOST = 100_000;
const DEFAULT = "class";

export function MapPage(props: PageProps): VNode {
  const { run, query } = props;
  const parameters = { run: run.name, method: query["method"], limit: MOST };
  const found = useRemote<MapView>(JSON.stringify(parameters), (signal) => get("map", parameters, signal));
  if (found.state === "failed") return <><h1>Map</h1><Failure error={found.error} retry={found.retry} /></>;
  if (found.state === "loading") return <><h1>Map</h1><Loading lines={3} what="Loading the map" /></>;
  return <Shown key={`${run.name} ${found.value.method}`} {...props} map={found.value} />;
}

function Shown({ query, link, theme, map }: PageProps & { map: MapView }): VNode {
  const change = (changes: Record<string, string | number | null>, how: "push" | "replace" = "push"): void =>
    go(link("map", { ...query, ...changes }), how);
  const [text, setText] = useState(query["q"] ?? "");
  useEffect(() => setText(query["q"] ?? ""), [query["q"]]);
  const settled = useDelayed(text, 150);
  useEffect(() => { if (settled === text && settled !== (query["q"] ?? "")) change({ q: settled || null }, "replace"); }, [settled]);
  const [lasso, setLasso] = useState(false);

  const { q = "", class: only = "", lasso: ring = "", focus = "" } = query;
  const chosen = useMemo(() => chosenPoints(map, { q, only, ring, focus }), [map, q, only, ring, focus]);
  const by = query["colour"] === "degree" ? "degree" : DEFAULT;
  return (
    <>
      <div class="title-row">
        <h1>Map <span class="soft small">{map.count < map.total ? `${count(map.count)} of ${plural(map.total, "entity", "entities")}` : plural(map.total, "entity", "entities")}</span></h1>
        <div class="tools">
          <input type="search" aria-label="Highlight names" placeholder="Highlight…" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <label title="Class: the position (head or tail of a relation) in which the entity occurs most often">Colour <select value={by} onChange={(event) => change({ colour: event.currentTarget.value === DEFAULT ? null : event.currentTarget.value }, "replace")}>
            <option value="class">by class</option><option value="degree">by number of facts</option>
          </select></label>
          {map.methods.length > 1 && (
            <label title="How embeddings become points: PCA, UMAP or PaCMAP">Layout <select value={map.method} onChange={(event) => change({ method: event.currentTarget.value, view: null, lasso: null })}>
              {map.methods.map((one) => <option key={one} value={one}>{one.toUpperCase()}</option>)}
            </select></label>
          )}
          <button type="button" title="Draw a line around entities to select them" aria-pressed={lasso} onClick={() => setLasso(!lasso)}>Lasso</button>
          <button type="button" onClick={() => change({ view: null, q: null, class: null, lasso: null, focus: null })}>Reset</button>
        </div>
      </div>
      <div class={`map ${chosen ? "with-list" : ""}`}>
        <Points
          map={map}
          chosen={chosen}
          by={by}
          theme={theme}
          lasso={lasso}
          view={query["view"] ?? ""}
          focus={focus}
          moved={(view) => change({ view }, "replace")}
          encircled={(polygon) => { setLasso(false); change({ lasso: polygon, focus: null }); }}
          open={(i) => go(link("entity", { name: map.names[i] ?? "" }))}
        />
        {chosen && <PointsList map={map} chosen={chosen} by={by} link={link} close={() => change({ q: null, class: null, lasso: null, focus: null })} />}
      </div>
      {by === "class" ? (
        <ul class="legend" aria-label="Classes">
          {map.classes.map((one, i) => (
            <li key={one.label}>
              <button type="button" class="quiet" aria-pressed={only === String(i)} onClick={() => change({ class: only === String(i) ? null : i, focus: null })}>
                <span class="dot" style={{ background: classColour(i) }} /> {classWords(one.label)} <span class="soft">{count(one.count)}</span>
              </button>
            </li>
          ))}
        </ul>
      ) : (
        <p class="ramp"><span class="soft">few facts</span><span class="bar" /><span class="soft">many</span></p>
      )}
      <p class="soft hint">Entities with similar embeddings lie close together. Drag to move, scroll or pinch to zoom, hold Shift and drag to select, click a point to open it. Labels show the entities with the most facts; zoom in for more.</p>
    </>
  );
}
