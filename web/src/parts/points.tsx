/** The selected points as a list of names, which also makes the map usable with a screen reader. */
import type { VNode } from "preact";
import type { PageProps } from "../app";
import type { MapView } from "../client";
import { classColour } from "../draw/colours";
import { count, plural } from "../numbers";

const LISTED = 100;

interface Props {
  readonly map: MapView;
  readonly chosen: readonly number[];
  readonly by: "class" | "degree";
  readonly link: PageProps["link"];
  readonly close: () => void;
}

export function PointsList({ map, chosen, by, link, close }: Props): VNode {
  return (
    <section class="points" aria-label="Selected entities">
      <h2>
        {chosen.length === 0 ? "No matches" : plural(chosen.length, "entity", "entities")}
        <button type="button" class="quiet" aria-label="Clear selection" onClick={close}>×</button>
      </h2>
      <ul>
        {chosen.slice(0, LISTED).map((i) => (
          <li key={i}>
            {by === "class" && <span class="dot" style={{ background: classColour(map.class[i] ?? 0) }} />}
            <a href={link("entity", { name: map.names[i] ?? "" })} data-top>{map.labels[i]}</a>
            <span class="soft">{map.degree[i]}</span>
          </li>
        ))}
      </ul>
      {chosen.length > LISTED && <p class="soft">and {count(chosen.length - LISTED)} more</p>}
    </section>
  );
}
