/** The reasons of an answer: training facts that support it, and short paths from head to tail. */
import type { VNode } from "preact";
import type { PageProps } from "../app";
import { get, type Explanation, type Fact, type Named } from "../client";
import { useRemote } from "../remote";
import { Label, Meter, RelationName } from "./marks";
import { Failure, Loading } from "./states";

interface Props {
  readonly run: string;
  readonly head: string;
  readonly relation: string;
  readonly tail: string;
  readonly link: PageProps["link"];
}

export function Explained({ run, head, relation, tail, link }: Props): VNode {
  const parameters = { run, head, relation, tail, k: 5 };
  const found = useRemote<Explanation>(JSON.stringify(parameters), (signal) => get("explain", parameters, signal));
  if (found.state === "failed") return <div class="reasons"><Failure error={found.error} retry={found.retry} /></div>;
  if (found.state === "loading") return <div class="reasons"><Loading lines={4} what="Loading reasons" /></div>;
  const { supports, paths } = found.value;
  const strongest = Math.max(...supports.map((one) => Math.abs(one.strength)), 1e-9);
  return (
    <div class="reasons" role="region" aria-label="Why">
      <div>
        <h3>Supporting facts</h3>
        {supports.length === 0 && <p class="soft">No training fact clearly supports this answer.</p>}
        <ul>
          {supports.map((one, i) => (
            <li key={i} class="support">
              <Sentence fact={one} link={link} />
              <Meter share={Math.abs(one.strength) / strongest} text={one.strength.toPrecision(2)} title="Strength of the support, relative to the strongest fact" />
            </li>
          ))}
        </ul>
      </div>
      <div>
        <h3>Paths in the graph</h3>
        {paths.length === 0 && <p class="soft">No short path connects head and tail.</p>}
        <ul>
          {paths.map((path, i) => <li key={i}><Chain start={found.value.fact.head} steps={path.steps} link={link} /></li>)}
        </ul>
      </div>
    </div>
  );
}

function Sentence({ fact, link }: { fact: Fact; link: Props["link"] }): VNode {
  return (
    <span class="sentence">
      <Name of={fact.head} link={link} /> <RelationName {...fact.relation} /> <Name of={fact.tail} link={link} />
    </span>
  );
}

/** A path as one line; an arrow to the left marks a fact that is followed from tail to head. */
function Chain({ start, steps, link }: { start: Named; steps: readonly Fact[]; link: Props["link"] }): VNode {
  let at = start.name;
  const walked = steps.map((step) => {
    const forward = step.head.name === at;
    const next = forward ? step.tail : step.head;
    at = next.name;
    return { forward, relation: step.relation, next };
  });
  return (
    <span class="sentence">
      <Name of={start} link={link} />
      {walked.map(({ forward, relation, next }, i) => (
        <span key={i}> <span class="arrow">{forward ? "→" : "←"}</span> <RelationName {...relation} /> <span class="arrow">{forward ? "→" : "←"}</span> <Name of={next} link={link} /></span>
      ))}
    </span>
  );
}

function Name({ of, link }: { of: Named; link: Props["link"] }): VNode {
  return <a href={link("entity", { name: of.name })}><Label text={of.label} /></a>;
}
