/** Relations: counts, patterns, and how well the model answers each relation in both directions. */
import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { PageProps } from "../app";
import { get, type Direction, type Mined, type Relation } from "../client";
import { alike, count, decimals, MRR_HINT, percent, plural, words } from "../numbers";
import { Label, Meter, RelationName } from "../parts/marks";
import { Failure, Loading, Nothing } from "../parts/states";
import { useRemote } from "../remote";
import { go } from "../route";

interface Column {
  readonly key: string;
  readonly title: string;
  readonly hint: string;
  readonly text?: boolean;
  readonly value: (one: Relation) => number | string | null;
  readonly cell: (one: Relation) => VNode | string;
}

const KINDS = ["1-1", "1-n", "n-1", "n-n"];
const mrr = (found: Direction | null): VNode | string =>
  found ? <Meter share={found.mrr} text={decimals(found.mrr, 3)} title={`${plural(found.questions, "question")}; Hits@1 ${decimals(found["hits@1"])}, Hits@10 ${decimals(found["hits@10"])}`} /> : "–";

const COLUMNS: readonly Column[] = [
  { key: "train", title: "Facts", hint: "Training facts", value: (one) => one.train, cell: (one) => count(one.train) },
  { key: "cardinality", title: "Cardinality", hint: "How many tails a head has and how many heads a tail has: 1-1, 1-n, n-1 or n-n", text: true,
    value: (one) => one.cardinality && KINDS.indexOf(one.cardinality),
    cell: (one) => <span title={`${decimals(one.tails_per_head, 1)} tails per head, ${decimals(one.heads_per_tail, 1)} heads per tail`}>{one.cardinality ?? "–"}</span> },
  { key: "pattern", title: "Patterns", hint: "Symmetric: the relation holds in both directions. Inverse: another relation states the same facts from tail to head.", text: true,
    value: (one) => one.patterns.map((found) => found.pattern).join() || null,
    cell: (one) => one.patterns.length === 0 ? "–" : <>{one.patterns.map((found) => <span key={found.pattern + found.other.name} class="badge" title={`${plural(found.support, "fact")}, confidence ${percent(found.confidence)}`}>{found.pattern}{found.other.name !== one.name && ` of ${words(found.other.label)}`}</span>)}</> },
  { key: "tail", title: "MRR for tails", hint: `How well the model finds the tail of a held-out fact. ${MRR_HINT}`, value: (one) => one.ranks.tail?.mrr ?? null, cell: (one) => mrr(one.ranks.tail) },
  { key: "head", title: "MRR for heads", hint: `How well the model finds the head of a held-out fact. ${MRR_HINT}`, value: (one) => one.ranks.head?.mrr ?? null, cell: (one) => mrr(one.ranks.head) },
];

const ALL = 10_000;
const ROWS = 500;

export function RelationsPage(props: PageProps): VNode {
  const { run, query } = props;
  const found = useRemote<{ total: number; relations: readonly Relation[] }>(run.name, (signal) => get("relations", { run: run.name, limit: ALL }, signal));
  if (found.state === "failed") return <><h1>Relations</h1><Failure error={found.error} retry={found.retry} /></>;
  if (found.state === "loading") return <><h1>Relations</h1><Loading lines={12} /></>;
  const wanted = query["relation"];
  const chosen = found.value.relations.find((one) => one.name === wanted) ?? found.value.relations.find((one) => one.label === wanted);
  if (chosen) return <One {...props} relation={chosen} />;
  return (
    <>
      {wanted && <Nothing title={`No relation is named “${wanted}”`}>The table below lists all relations.</Nothing>}
      <Table {...props} {...found.value} />
    </>
  );
}

function Table({ relations, total, query, link }: PageProps & { relations: readonly Relation[]; total: number }): VNode {
  const text = query["q"] ?? "";
  const [whole, setWhole] = useState(false);
  const key = query["sort"]?.replace(/^-/, "") ?? "train";
  const down = query["sort"]?.startsWith("-") ?? !query["sort"];
  const column = COLUMNS.find((one) => one.key === key);
  const value = column?.value ?? ((one: Relation) => words(one.label).toLowerCase());
  const rows = relations
    .filter((one) => `${one.name} ${words(one.label)}`.toLowerCase().includes(text.trim().toLowerCase()))
    .sort((a, b) => compare(value(a), value(b), down));
  const twice = useMemo(() => alike(relations), [relations]);
  const sorted = (wanted: string, first: "up" | "down"): string => {
    const next = wanted === key ? !down : first === "down";
    return link("relations", { ...query, sort: `${next ? "-" : ""}${wanted}` });
  };
  const head = (wanted: string, title: string, hint: string, text: boolean): VNode => (
    <th key={wanted} scope="col" class={text ? "" : "number"} aria-sort={key === wanted ? (down ? "descending" : "ascending") : undefined}>
      <a href={sorted(wanted, text ? "up" : "down")} title={hint}>{title}<span class="sort" aria-hidden="true">{key === wanted ? (down ? " ↓" : " ↑") : ""}</span></a>
    </th>
  );
  return (
    <>
      <div class="title-row">
        <h1>{plural(total, "relation")}</h1>
        <label class="filter">
          <span class="hidden">Filter relations</span>
          <input type="search" placeholder="Filter…" value={text} onInput={(event) => go(link("relations", { ...query, q: event.currentTarget.value }), "replace")} />
        </label>
      </div>
      {rows.length === 0 ? <Nothing title={`No relation matches “${text}”`} /> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of relations">
          <table>
            <thead><tr>{head("name", "Relation", "Name of the relation", true)}{COLUMNS.map((one) => head(one.key, one.title, one.hint, one.text ?? false))}</tr></thead>
            <tbody>
              {(whole ? rows : rows.slice(0, ROWS)).map((one) => (
                <tr key={one.name}>
                  <th scope="row"><a href={link("relations", { relation: one.name })} title={one.name} data-top>{words(one.label)}</a>{twice.has(one.name) && <div class="soft hint"><Label text={one.name} /></div>}</th>
                  {COLUMNS.map((shown) => <td key={shown.key} class={shown.text ? "" : "number"}>{shown.cell(one)}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {!whole && rows.length > ROWS && <p class="more"><button type="button" onClick={() => setWhole(true)}>Show all {count(rows.length)}</button></p>}
    </>
  );
}

/** Compare for sorting; missing values come last in both directions. */
function compare(a: number | string | null, b: number | string | null, down: boolean): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
}

function One({ run, relation, query, link }: PageProps & { relation: Relation }): VNode {
  const { ranks } = relation;
  return (
    <>
      <p><a href={link("relations", { sort: query["sort"], q: query["q"] })}>← All relations</a></p>
      <div class="title">
        <h1>{words(relation.label)}</h1>
        <p class="soft">{relation.name !== words(relation.label) && <code>{relation.name}</code>}</p>
        <p class="links"><a href={link("ask", { relation: relation.name })} data-top>Ask about this relation</a></p>
      </div>
      <dl class="figures card">
        <div><dt>Training facts</dt><dd>{count(relation.train)}</dd></div>
        <div><dt title="Facts in valid and test, which the model was not trained on">Held out</dt><dd>{count(relation.valid + relation.test)}</dd></div>
        <div><dt>Cardinality</dt><dd>{relation.cardinality ?? "–"}</dd></div>
        <div><dt>Tails per head</dt><dd>{decimals(relation.tails_per_head, 1)}</dd></div>
        <div><dt>Heads per tail</dt><dd>{decimals(relation.heads_per_tail, 1)}</dd></div>
        <div><dt title={MRR_HINT}>MRR for tails</dt><dd>{decimals(ranks.tail?.mrr, 3)}</dd></div>
        <div><dt title={MRR_HINT}>MRR for heads</dt><dd>{decimals(ranks.head?.mrr, 3)}</dd></div>
      </dl>
      {relation.patterns.length > 0 && (
        <ul class="plain">
          {relation.patterns.map((found) => (
            <li key={found.pattern + found.other.name}>
              {found.pattern === "symmetric" ? "Symmetric: it holds in both directions" : <>Inverse of <a href={link("relations", { relation: found.other.name })}>{words(found.other.label)}</a></>}
              {" "}<span class="soft">{plural(found.support, "fact")}, confidence {percent(found.confidence)}</span>
            </li>
          ))}
        </ul>
      )}
      <Missing run={run.name} relation={relation} link={link} />
    </>
  );
}

function Missing({ run, relation, link }: { run: string; relation: Relation; link: PageProps["link"] }): VNode {
  const found = useRemote<Finds>(`${run} ${relation.name}`, (signal) => get("mine", { run, relation: relation.name, n: 20 }, signal));
  return (
    <section aria-label="Facts that may be missing">
      <h2>Facts that may be missing</h2>
      <p class="soft hint">Plausibility combines three questions: Is another tail likely? Is it this one? If the reverse fact is known, does the relation usually hold in both directions? The most plausible facts come first; if the run is calibrated, the most probable ones.</p>
      {found.state === "failed" ? (
        <Failure error={found.error} retry={found.retry} />
      ) : found.state === "loading" ? (
        <><p class="soft">Checking every entity that may have another tail. This takes a while in a large graph.</p><Loading lines={8} what="Searching for missing facts" /></>
      ) : (
        <><Found {...found.value} link={link} />{!found.value.complete && (
          <p class="soft hint">The time limit was reached before every entity was checked; these are the best facts so far. Run <code>conjoin mine {run} --relation {JSON.stringify(relation.name)}</code> to check all.</p>
        )}</>
      )}
    </section>
  );
}

interface Finds { readonly complete: boolean; readonly facts: readonly Mined[] }

function Found({ facts, complete, link }: Finds & { link: PageProps["link"] }): VNode {
  if (facts.length === 0) return <Nothing title={complete ? "No missing facts found" : "No facts found within the time limit"} />;
  return (
    <ol class="mined">
      {facts.map((one) => (
        <li key={`${one.head.name}\n${one.tail.name}`}>
          <a class="sentence" href={link("ask", { head: one.head.name, relation: one.relation.name, tail: one.tail.name })} data-top>
            <Label text={one.head.label} /> <RelationName {...one.relation} /> <Label text={one.tail.label} />
          </a>
          <Meter share={one.plausibility} text={one.plausibility < 0.01 ? "< 0.01" : decimals(one.plausibility)} title="Plausibility: the chance of another tail, times this tail's softmax share among all new tails; if the reverse fact is known, also times how often the relation holds in both directions" />
          <span class="score" title="Probability that the fact is true, calibrated on held-out facts">{one.probability === null ? "" : percent(one.probability)}</span>
        </li>
      ))}
    </ol>
  );
}
