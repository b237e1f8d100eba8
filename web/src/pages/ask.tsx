/** Ask: the reader gives two of head, relation and tail; the model finds the third. */
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { PageProps } from "../app";
import { get, SIDES, UNKNOWN, type Answered, type Judged, type Named, type Scored, type Side } from "../client";
import { count, percent, plural, words } from "../numbers";
import { Answers, matchedRanks } from "../parts/answers";
import { Combobox } from "../parts/combobox";
import { Explained } from "../parts/explained";
import { Badge, Label, RelationName, Untrained } from "../parts/marks";
import { findEntities, findRelations } from "../parts/search";
import { Starters } from "../parts/starters";
import { Failure, Loading } from "../parts/states";
import { type Remote, useRemote } from "../remote";
import { go, nameTab } from "../route";

const FIRST = 10;
const MOST = 100;
const SURE = 50;
const asIs = (label: string): string => label;
const FIELD_HINTS: Readonly<Record<Side, string>> = {
  head: "The entity that a fact is about, for example France in “France borders Spain”",
  relation: "How head and tail are connected, for example borders in “France borders Spain”",
  tail: "The entity that the head is connected to, for example Spain in “France borders Spain”",
};

type Wanted = Readonly<Record<Side, Named | null>>;

export function AskPage(props: PageProps): VNode {
  const { run, runs, query, link } = props;
  const [labels, setLabels] = useState<Readonly<Record<string, string>>>({});
  const wanted = Object.fromEntries(SIDES.map((side) => [side, named(query[side], labels)])) as Wanted;
  const given = SIDES.filter((side) => wanted[side]);
  const asked = given.length === 2 ? (SIDES.find((side) => !wanted[side]) ?? null) : null;

  const change = (changes: Record<string, string | number | null>, how: "push" | "replace" = "push"): void =>
    go(link("ask", { ...query, ...changes }), how);
  const pick = (side: Side) => (chosen: Named | null): void => {
    if (chosen) setLabels((old) => ({ ...old, [chosen.name]: chosen.label }));
    change({ [side]: chosen?.name ?? null, why: null, k: null });
    const empty = SIDES.filter((one) => one !== side && !wanted[one]);
    if (chosen && empty.length === 2) document.getElementById(side === "relation" ? "head" : (empty[0] ?? "head"))?.focus();
  };
  const learn = (answered: Answered | Scored): void => {
    const question = "question" in answered ? answered.question : answered;
    const fresh = SIDES.flatMap((side) => {
      const one = question[side];
      return one ? [[query[side] ?? one.name, one.label], [one.name, one.label]] : [];
    });
    setLabels((old) => (fresh.every(([name, label]) => old[name ?? ""] === label) ? old : { ...old, ...Object.fromEntries(fresh) }));
  };
  const other = runs.find((one) => one.name === query["with"] && one.name !== run.name);
  useEffect(() => {
    const parts = SIDES.map((side) => (side === "relation" && wanted[side] ? words(wanted[side].label) : (wanted[side]?.label ?? UNKNOWN)));
    nameTab(given.length > 0 ? parts.join(" ") : null, "Ask");
  }, [labels, query]);

  return (
    <>
      <h1 class="hidden">Ask</h1>
      <form class="question" onSubmit={(event) => event.preventDefault()} role="search" aria-label="Question">
        {SIDES.map((side) => (
          <Combobox
            key={side}
            id={side}
            label={side === "head" ? "Head" : side === "relation" ? "Relation" : "Tail"}
            hint={FIELD_HINTS[side]}
            placeholder={given.length === 2 ? UNKNOWN : "Type a name…"}
            value={wanted[side]}
            show={side === "relation" ? words : asIs}
            source={`${run.name} ${side}`}
            find={(text, signal) => (side === "relation" ? findRelations : findEntities)(run.name, text, signal)}
            pick={pick(side)}
          />
        ))}
      </form>
      {given.length < 2 && <Starters {...props} given={given} wanted={wanted} learn={(more) => setLabels((old) => ({ ...more, ...old }))} />}
      {given.length === 3 && <Judgement {...props} learn={learn} />}
      {asked && (
        <>
          <Options {...props} change={change} />
          <Lists {...props} asked={asked} other={other?.name ?? null} change={change} learn={learn} />
        </>
      )}
    </>
  );
}

function named(name: string | undefined, labels: Readonly<Record<string, string>>): Named | null {
  return name && name !== UNKNOWN ? { name, label: (Object.hasOwn(labels, name) ? labels[name] : null) ?? name } : null;
}

type Change = (changes: Record<string, string | number | null>, how?: "push" | "replace") => void;

function Options({ run, runs, query, change }: PageProps & { change: Change }): VNode {
  const others = runs.filter((one) => one.name !== run.name && one.data === run.data);
  return (
    <div class="options-row">
      <label class="check">
        <input type="checkbox" checked={query["new"] === "1"} onChange={(event) => change({ new: event.currentTarget.checked ? 1 : null, why: null })} />
        Only new facts
      </label>
      {run.calibrated ? (
        <label title="New answers below this probability are marked as guesses">
          Mark as guess below{" "}
          <select value={sure(query["sure"])} onChange={(event) => change({ sure: Number(event.currentTarget.value) === SURE ? null : event.currentTarget.value })}>
            {[10, 25, 50, 75, 90].map((p) => <option key={p} value={p}>{p} %</option>)}
          </select>
        </label>
      ) : (
        <span class="soft hint">Scores only rank the answers. Run <code>conjoin calibrate</code> to get probabilities.</span>
      )}
      {others.length > 0 && (
        <label>
          Compare with{" "}
          <select value={query["with"] ?? ""} onChange={(event) => change({ with: event.currentTarget.value || null, why: null })}>
            <option value="">none</option>
            {others.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
          </select>
        </label>
      )}
    </div>
  );
}

function sure(text: string | undefined): number {
  const p = Number(text ?? SURE);
  return p > 0 && p <= 100 ? p : SURE;
}

interface Listed extends PageProps {
  readonly asked: Side;
  readonly other: string | null;
  readonly change: Change;
  readonly learn: (answered: Answered) => void;
}

function useAnswers(run: string | null, { query }: Listed): Remote<Answered> {
  const { head, relation, tail } = query;
  const k = Math.min(Math.max(Math.trunc(Number(query["k"] ?? FIRST)) || FIRST, 1), 1000);
  const parameters = { run, head, relation, tail, k, only_new: query["new"] === "1" };
  return useRemote<Answered>(run === null ? null : JSON.stringify(parameters), (signal) => get("ask", parameters, signal));
}

function Lists(props: Listed): VNode {
  const { run, query, other, change, learn } = props;
  const mine = useAnswers(run.name, props);
  const theirs = useAnswers(other, props);
  useEffect(() => { if (mine.value) learn(mine.value); }, [mine.value]);
  const shared = { ...props, confident: sure(query["sure"]) / 100 };
  const shown = mine.value?.answers.length ?? 0;
  const k = Number(query["k"] ?? FIRST);
  return (
    <>
      <p class="hidden" role="status">{mine.value ? `${plural(shown, "answer")}${shown ? `, first ${mine.value.answers[0]?.label ?? ""}` : ""}` : ""}</p>
      <div class={other ? "side-by-side" : ""}>
        <One {...shared} title={other ? run.name : null} of={run.name} found={mine} ranks={other && theirs.value ? matchedRanks(theirs.value) : null} />
        {other && <One {...shared} title={other} of={other} found={theirs} ranks={mine.value ? matchedRanks(mine.value) : null} />}
      </div>
      {shown >= k && k < MOST && (
        <p class="more"><button type="button" onClick={() => change({ k: k < 25 ? 25 : MOST }, "replace")}>Show more answers</button></p>
      )}
    </>
  );
}

interface OneProps extends Listed {
  readonly title: string | null;
  readonly of: string;
  readonly found: Remote<Answered>;
  readonly ranks: ReadonlyMap<string, number> | null;
  readonly confident: number;
}

function One({ title, found, ...props }: OneProps): VNode {
  const stale = found.state === "loading" ? found.stale : null;
  const answered = found.value ?? (stale?.asked === props.asked ? stale : null);
  return (
    <section aria-busy={found.state === "loading"} aria-label={title ? `Answers from ${title}` : "Answers"}>
      <h2 class={title ? "" : "hidden"}>{title ?? "Answers"}</h2>
      {found.state === "failed" ? (
        <Failure error={found.error} retry={found.retry} />
      ) : answered ? (
        <Answers {...props} answered={answered} fading={found.state === "loading"} />
      ) : (
        <Loading lines={8} what="Loading answers" />
      )}
    </section>
  );
}

/** Head, relation and tail are given: show how likely the fact is, and why. */
function Judgement({ run, query, link, learn }: PageProps & { learn: (scored: Scored) => void }): VNode {
  const { head, relation, tail } = query;
  const parameters = { run: run.name, head, relation, tail };
  const found = useRemote<Judged>(JSON.stringify(parameters), (signal) => get("score", parameters, signal));
  const scored = found.value?.scores[0];
  useEffect(() => { if (scored) learn(scored); }, [scored]);
  if (found.state === "failed") return <Failure error={found.error} retry={found.retry} />;
  if (!scored) return <Loading lines={4} />;
  return (
    <section class="card standing" aria-label="How likely the fact is">
      <h2 class="hidden">How likely the fact is</h2>
      <p class="lead">
        <b><Label text={scored.head.label} /></b> <RelationName {...scored.relation} /> <b><Label text={scored.tail.label} /></b> <Badge known={scored.known} />
      </p>
      <dl class="figures">
        {scored.probability !== null && <div title="Of 100 facts with this probability, about this many are true (calibrated on held-out facts)"><dt>Probability</dt><dd>{percent(scored.probability)}</dd></div>}
        <div title="The rank of this tail among all entities, without other known answers; 1 is best"><dt>Filtered rank (known answers excluded)</dt><dd>{count(scored.rank)}</dd></div>
        <div title="Higher scores rank first. Scores of different questions are not comparable."><dt>Score</dt><dd>{scored.score.toFixed(2)}</dd></div>
      </dl>
      <Untrained names={found.value?.untrained ?? []} />
      <Explained run={run.name} head={scored.head.name} relation={scored.relation.name} tail={scored.tail.name} link={link} />
      <p><a href={link("ask", { head, relation })}>Show other answers to this question</a></p>
    </section>
  );
}
