/** Example questions from the graph with their answers; a click opens one. */
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import type { PageProps } from "../app";
import { get, post, SIDES, UNKNOWN, type Answer, type Answered, type Entity, type EntityView, type Fact, type Named, type Relation, type Side } from "../client";
import { words } from "../numbers";
import { useRemote } from "../remote";
import { Badge, Label } from "./marks";
import { Failure, Loading } from "./states";

const HUBS = 10;
const SHOWN = 6;

interface Started {
  readonly question: Readonly<Record<Side, Named | null>>;
  readonly answered: Answered;
}
interface Candidate {
  readonly worth: number;
  readonly fact: Fact;
  readonly asked: Side;
  readonly about: string;
}
interface Props extends PageProps {
  readonly given: readonly Side[];
  readonly wanted: Readonly<Record<Side, Named | null>>;
  readonly learn: (labels: Readonly<Record<string, string>>) => void;
}

export function Starters({ run, link, query, given, wanted, learn }: Props): VNode {
  const only = given[0] ? wanted[given[0]] : null;
  const found = useRemote<readonly Started[]>(`${run.name} ${given[0] ?? ""} ${only?.name ?? ""}`, (signal) => start(run.name, given[0] ?? null, only, signal));
  useEffect(() => {
    if (!found.value) return;
    learn(Object.fromEntries(found.value.flatMap(({ question }) => SIDES.flatMap((side) => (question[side] ? [[question[side].name, question[side].label]] : [])))));
  }, [found.value]);
  if (found.state === "failed") return <Failure error={found.error} retry={found.retry} />;
  if (found.state === "loading") return <Loading lines={6} what="Loading example questions" />;
  if (found.value.length === 0) return <p class="soft">Fill in one more field. The model finds the empty one.</p>;
  return (
    <section aria-label="Example questions">
      <h2>{only ? "Fill in one more field, or open an example" : "Fill in two fields to find the third, or open an example"}</h2>
      <ul class="starters">
        {found.value.map(({ question, answered }) => (
          <li key={JSON.stringify(question)}>
            <a
              href={link("ask", { ...query, head: question.head?.name, relation: question.relation?.name, tail: question.tail?.name })}
              class="card starter"
              data-top
            >
              <span class="asks">{SIDES.map((side) => <span key={side}><Part side={side} of={question[side]} /> </span>)}</span>
              <span class="tells">
                {plausible(answered).map((answer) => (
                  <span key={answer.entity}>
                    <Label text={answered.asked === "relation" ? words(answer.label) : answer.label} /> {!answer.known && <Badge known={false} />}
                  </span>
                ))}
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The first answer and others of similar score. Scores are logits: a score lower by 2 is about a seventh as likely. */
function plausible({ answers }: Answered): readonly Answer[] {
  const best = answers[0];
  return answers.filter((one) => one === best || (one.known || one.probability === null ? one.score > (best?.score ?? 0) - 2 : one.probability > 0.25));
}

function Part({ side, of }: { side: Side; of: Named | null }): VNode {
  if (!of) return <b class="unknown">?</b>;
  return side === "relation" ? <span class="relation">{words(of.label)}</span> : <b><Label text={of.label} /></b>;
}

/** Questions about entities with many facts, one per relation, ordered by how well the model answers the relation. */
async function start(run: string, side: Side | null, only: Named | null, signal: AbortSignal): Promise<readonly Started[]> {
  const relations = (await get<{ relations: readonly Relation[] }>("relations", { run, limit: 200 }, signal)).relations;
  const quality = new Map(relations.map((one) => [one.name, one.ranks]));
  const hubs =
    only && side !== "relation"
      ? [{ ...only, degree: 0 }]
      : (await get<{ entities: readonly Entity[] }>("entities", { run, q: "", limit: HUBS }, signal)).entities;
  const views = await Promise.all(hubs.map((hub) => get<EntityView>("entity", { run, entity: hub.name, facts: 200, nodes: 1 }, signal)));
  const best = new Map<string, Candidate>();
  views.forEach(({ entity, facts }) => {
    for (const fact of facts) {
      if (SIDES.some((one) => fact[one].name === UNKNOWN)) continue;
      if (side === "relation" && only && fact.relation.name !== only.name && fact.relation.label !== only.name) continue;
      const asked: Side = fact.head.name === entity.name ? "tail" : "head";
      const alike = facts.filter((one) => one.relation.name === fact.relation.name && one[asked === "tail" ? "head" : "tail"].name === entity.name).length;
      const worth = (quality.get(fact.relation.name)?.[asked]?.mrr ?? 0.3) + (asked === "tail" ? 0.2 : 0) - (alike > 12 ? 0.5 : 0);
      const key = side === "relation" || side === null ? `${entity.name} ${fact.relation.name}` : fact.relation.name;
      if (worth > (best.get(key)?.worth ?? -Infinity)) best.set(key, { worth, fact, asked, about: entity.name });
    }
  });
  const ranked = [...best.values()].sort((a, b) => b.worth - a.worth);
  const [entities, used] = [new Set<string>(), new Set<string>()];
  const varied = ranked.filter(({ about, fact }) => {
    if (entities.has(about) || used.has(fact.relation.name)) return false;
    entities.add(about);
    used.add(fact.relation.name);
    return true;
  });
  const chosen = (side === null ? [...varied, ...ranked.filter((one) => !varied.includes(one))] : ranked).slice(0, SHOWN);
  if (!only && chosen.length === SHOWN) chosen.splice(2, 1, { ...(chosen[2] as Candidate), asked: "relation" });
  const questions = chosen.map(({ fact, asked }) => ({ ...fact, [asked]: null }) as Started["question"]);
  if (questions.length === 0) return [];
  const reply = await post<{ results: readonly Answered[] }>(
    "ask",
    { questions: questions.map((one) => ({ head: one.head?.name ?? null, relation: one.relation?.name ?? null, tail: one.tail?.name ?? null })), k: 3, run },
    signal,
  );
  return questions.map((question, i) => ({ question, answered: reply.results[i] as Answered }));
}
