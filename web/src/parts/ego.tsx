/** The neighbourhood of an entity as a drawing, whose code is loaded only here. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { EntityView } from "../client";
import { plural } from "../numbers";
import type { Theme } from "../theme";

interface Props {
  readonly graph: EntityView["graph"];
  readonly theme: Theme;
  readonly open: (name: string) => void;
}

export function Ego({ graph, theme, open }: Props): VNode {
  const room = useRef<HTMLDivElement>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let end: (() => void) | null = null;
    let left = false;
    import("../draw/ego")
      .then(({ drawEgo }) => { if (!left && room.current) end = drawEgo(room.current, graph, open); })
      .catch(() => setFailed(true));
    return () => {
      left = true;
      end?.();
    };
  }, [graph, theme]);
  if (failed) return <p class="soft">The drawing needs WebGL, which is not available. The list of facts shows the same.</p>;
  const centre = graph.nodes[0]?.label ?? "";
  return (
    <figure class="ego">
      <div ref={room} class="drawing" role="img" aria-label={`${centre} with ${plural(graph.nodes.length - 1, "neighbour")} and ${plural(graph.edges.length, "fact")} between them; the list of facts shows the same`} />
      <figcaption class="soft">Hover over a dot to see its facts. Click it to open the entity.</figcaption>
    </figure>
  );
}
