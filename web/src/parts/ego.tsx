/** The neighbourhood as a picture. The drawing is loaded only here. */
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
  if (failed) return <p class="soft">The picture could not be drawn (it needs WebGL): the facts beside say the same.</p>;
  const centre = graph.nodes[0]?.label ?? "";
  return (
    <figure class="ego">
      <div ref={room} class="drawing" role="img" aria-label={`${centre} with ${plural(graph.nodes.length - 1, "neighbour")} and ${plural(graph.edges.length, "fact")} between them; the list of facts says the same`} />
      <figcaption class="soft">Point at a dot for its facts, click to go there.</figcaption>
    </figure>
  );
}
