/** Ranked answers; “Why?” opens the reasons of one. */
import type { VNode } from "preact";
import type { PageProps } from "../app";
import type { Answer, Answered, Side } from "../client";
import { percent, plural, words } from "../numbers";
import { go } from "../route";
import { Explained } from "./explained";
import { Badge, Label, Meter, Probability, Untrained } from "./marks";
import { Nothing } from "./states";

interface Props {
  readonly answered: Answered;
  readonly asked: Side;
  readonly of: string;
  readonly query: PageProps["query"];
  readonly link: PageProps["link"];
  readonly ranks: ReadonlyMap<string, number> | null;
  readonly confident: number;
  readonly fading: boolean;
}

export function matchedRanks(answered: Answered): ReadonlyMap<string, number> {
  return new Map(answered.answers.map((answer, i) => [answer.entity, i + 1]));
}

export function Answers({ answered, asked, of, query, link, ranks, confident, fading }: Props): VNode {
  const { answers, question } = answered;
  if (answers.length === 0) {
    return <Nothing title="No answers">{query["new"] === "1" ? "All answers are already in the graph. Uncheck “Only new facts” to see them." : "There are no candidates. An entity can be an answer about itself only if the training facts of the relation contain such a case."}</Nothing>;
  }
  const [best, worst] = [answers[0]?.score ?? 0, answers.at(-1)?.score ?? 0];
  const calibrated = answers.some((answer) => answer.probability !== null);
  const isGuess = (answer: Answer): boolean => answer.probability !== null && answer.probability < confident;
  const why = query["why"];
  const open = (answer: Answer): void =>
    go(link("ask", { ...query, why: why === tag(of, answer) ? null : tag(of, answer) }), "replace");
  return (
    <>
      {calibrated ? <p class="soft summary">{summary(answers.filter((answer) => !answer.known), isGuess, confident)}</p> : ranks && <p class="soft summary">No probabilities: this run is not calibrated. Scores only rank the answers.</p>}
      <Untrained names={answered.untrained} />
      <ol class={`answers ${fading ? "fading" : ""}`}>
        {answers.map((answer, i) => {
          const fact = { head: question.head?.name, relation: question.relation?.name, tail: question.tail?.name, [asked]: answer.entity };
          const reasons = why === tag(of, answer);
          const label = asked === "relation" ? words(answer.label) : answer.label;
          return (
            <li key={answer.entity} class={isGuess(answer) ? "doubtful" : ""}>
              <div class="answer">
                <span class="place">{i + 1}</span>
                <span class="who">
                  {asked === "relation" ? (
                    <a href={link("relations", { relation: answer.entity })} title={answer.entity}>{label}</a>
                  ) : (
                    <a href={link("entity", { name: answer.entity })} title={answer.entity === answer.label ? undefined : answer.entity}><Label text={label} /></a>
                  )}
                  {ranks && <span class="soft there" title="Rank of this answer in the other run">{elsewhere(ranks, answer.entity, i + 1)}</span>}
                </span>
                <Badge known={answer.known} guess={isGuess(answer)} />
                {answer.probability !== null ? (
                  <Probability p={answer.probability} />
                ) : calibrated ? (
                  <span class="meter" />
                ) : (
                  <Meter share={best > worst ? 0.1 + (0.9 * (answer.score - worst)) / (best - worst) : 1} text="" title="Score relative to the answers shown" />
                )}
                <span class="score" title="Score: orders the answers to one question. Scores of different questions are not comparable.">{answer.score.toFixed(2)}</span>
                <button type="button" class="quiet why" aria-expanded={reasons} aria-label={`Why ${label}?`} onClick={() => open(answer)}>
                  Why?
                </button>
              </div>
              {reasons && (
                <Explained run={of} head={fact.head ?? ""} relation={fact.relation ?? ""} tail={fact.tail ?? ""} link={link} />
              )}
            </li>
          );
        })}
      </ol>
    </>
  );
}

function summary(fresh: readonly Answer[], isGuess: (answer: Answer) => boolean, confident: number): string {
  const sure = fresh.filter((answer) => !isGuess(answer)).length;
  if (sure === 0) return `No new answer is at least ${percent(confident)} likely.`;
  return `${plural(sure, "new answer")} at least ${percent(confident)} likely${sure < fresh.length ? "; the other new answers are guesses" : ""}.`;
}

/** Names the opened answer in the address. Two runs side by side may explain the same answer, so it includes the run. */
function tag(of: string, answer: Answer): string {
  return `${of}:${answer.entity}`;
}

function elsewhere(ranks: ReadonlyMap<string, number>, entity: string, here: number): string {
  const there = ranks.get(entity);
  if (there === undefined) return `other: not in top ${ranks.size}`;
  return there === here ? "other: same rank" : `other: rank ${there}`;
}
