/** Entity: its facts by relation, its neighbourhood, and similar entities. */
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { PageProps } from "../app";
import { get, type Entity, type EntityView, type HeldFact, type Named, type Similar } from "../client";
import { count, plural, words } from "../numbers";
import { Combobox } from "../parts/combobox";
import { Ego } from "../parts/ego";
import { Label, Meter, RelationName } from "../parts/marks";
import { findEntities } from "../parts/search";
import { Failure, Loading, Nothing } from "../parts/states";
import { useRemote } from "../remote";
import { go, nameTab } from "../route";

const FACTS = 1000;
const NODES = 32;
const FOLDED = 12;

export function EntityPage(props: PageProps): VNode {
  const { run, query, link } = props;
  const name = query["name"];
  return (
    <>
      <div class="finder">
        <Combobox
          id="entity"
          label="Entity"
          placeholder="Find an entity…"
          value={null}
          source={run.name}
          find={(text, signal) => findEntities(run.name, text, signal)}
          pick={(chosen) => { if (chosen) go(link("entity", { name: chosen.name }), "top"); }}
        />
      </div>
      {name ? <One key={`${run.name} ${name}`} {...props} name={name} /> : <Largest {...props} />}
    </>
  );
}

function Largest({ run, link }: PageProps): VNode {
  useEffect(() => nameTab("Entity"), []);
  const found = useRemote<{ entities: readonly Entity[] }>(run.name, (signal) => get("entities", { run: run.name, q: "", limit: 24 }, signal));
  return (
    <>
      <h1>Entities with the most facts</h1>
      {found.state === "failed" ? <Failure error={found.error} retry={found.retry} /> : found.state === "loading" ? <Loading lines={8} /> : (
        <ul class="chips">
          {found.value.entities.map((one) => (
            <li key={one.name}><a class="chip" href={link("entity", { name: one.name })} data-top><Label text={one.label} /> <span class="soft">{one.degree}</span></a></li>
          ))}
        </ul>
      )}
    </>
  );
}

function One({ run, name, link, theme }: PageProps & { name: string }): VNode {
  const found = useRemote<EntityView>(name, (signal) => get("entity", { run: run.name, entity: name, facts: FACTS, nodes: NODES }, signal));
  const label = found.value?.entity.label ?? name;
  useEffect(() => nameTab(label, "Entity"), [label]);
  if (found.state === "failed") return <><h1>{name}</h1><Failure error={found.error} retry={found.retry} /></>;
  if (found.state === "loading") return <><h1>{name}</h1><Loading lines={10} /></>;
  const { entity, facts, total, graph } = found.value;
  return (
    <>
      <div class="title">
        <h1><Label text={entity.label} /></h1>
        <p class="soft">
          {entity.label !== entity.name && <><code>{entity.name}</code>, </>}
          {plural(total, "fact")}
          {total > facts.length && `, the first ${count(facts.length)} shown`}
        </p>
        <p class="links">
          <a href={link("ask", { head: entity.name })}>Ask about this entity</a>
          <a href={link("map", { focus: entity.name })}>Show on the map</a>
        </p>
      </div>
      <div class="entity">
        <section aria-label="Facts">
          <h2>Facts</h2>
          {facts.length === 0 && <Nothing title="No facts mention this entity" />}
          {grouped(entity, facts).map((group) => <Group key={group.key} group={group} entity={entity} link={link} />)}
        </section>
        <div class="aside">
          <section aria-label="Neighbourhood">
            <h2>Neighbourhood</h2>
            {graph.nodes.length > 1 ? (
              <Ego graph={graph} theme={theme} open={(next) => go(link("entity", { name: next }), "top")} />
            ) : (
              <Nothing title="No neighbours in the training facts" />
            )}
          </section>
          <MostSimilar run={run.name} entity={entity} link={link} />
        </div>
      </div>
    </>
  );
}

interface Grouped {
  readonly key: string;
  readonly relation: Named;
  readonly outward: boolean;
  readonly facts: readonly HeldFact[];
}

function grouped(entity: Named, facts: readonly HeldFact[]): readonly Grouped[] {
  const groups = new Map<string, { relation: Named; outward: boolean; facts: HeldFact[] }>();
  for (const fact of facts) {
    const outward = fact.head.name === entity.name;
    const key = `${outward} ${fact.relation.name}`;
    const group = groups.get(key) ?? { relation: fact.relation, outward, facts: [] };
    group.facts.push(fact);
    groups.set(key, group);
  }
  return [...groups].map(([key, group]) => ({ key, ...group })).sort((a, b) => Number(b.outward) - Number(a.outward) || a.facts.length - b.facts.length);
}

function Group({ group, entity, link }: { group: Grouped; entity: Named; link: PageProps["link"] }): VNode {
  const [all, setAll] = useState(false);
  const { relation, outward, facts } = group;
  const shown = all ? facts : facts.slice(0, FOLDED);
  const asked = outward ? { head: entity.name, relation: relation.name } : { relation: relation.name, tail: entity.name };
  return (
    <div class="group">
      <h3>
        <span class="arrow" title={outward ? "This entity is the head of these facts" : "This entity is the tail of these facts"}>{outward ? "→" : "←"}</span> <RelationName {...relation} />
        {facts.length > 1 && <span class="soft"> {count(facts.length)}</span>}
      </h3>
      <ul class="chips">
        {shown.map((fact, i) => {
          const other = outward ? fact.tail : fact.head;
          return (
            <li key={i}>
              <a class={`chip ${fact.split === "train" ? "" : "held"}`} href={link("entity", { name: other.name })} title={fact.split === "train" ? undefined : `Held out of training (${fact.split})`} data-top>
                <Label text={other.label} />
              </a>
            </li>
          );
        })}
        {facts.length > shown.length && <li><button type="button" class="quiet" onClick={() => setAll(true)}>show all {count(facts.length)}</button></li>}
      </ul>
      <a class="ask" href={link("ask", asked)} data-top aria-label={`Ask for more: ${words(relation.label)}`} title="Ask the model for more such facts">ask</a>
    </div>
  );
}

function MostSimilar({ run, entity, link }: { run: string; entity: Named; link: PageProps["link"] }): VNode {
  const found = useRemote<{ similar: readonly Similar[] }>(entity.name, (signal) => get("similar", { run, entity: entity.name, k: 12 }, signal));
  return (
    <section aria-label="Most similar">
      <h2 title="Entities whose embeddings point in a similar direction">Most similar</h2>
      {found.state === "failed" ? <Failure error={found.error} retry={found.retry} /> : found.state === "loading" ? <Loading lines={6} /> : (
        <ol class="alike">
          {found.value.similar.map((one) => (
            <li key={one.entity}>
              <a href={link("entity", { name: one.entity })} data-top><Label text={one.label} /></a>
              {one.linked ? <span class="badge" title="A fact in the graph links the two entities">linked</span> : <span />}
              <Meter share={one.score} text={one.score.toFixed(2)} title="Cosine similarity of the two embeddings; 1 is the most similar" />
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}
