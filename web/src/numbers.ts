/** Format numbers and names for people. */
/** Tooltips that explain the two metrics. */
export const MRR_HINT = "MRR (mean reciprocal rank): the average of 1/rank of the correct answer on held-out facts; 1 is best.";
export const HITS_HINT = "Hits@10: the share of questions whose correct answer is among the first 10.";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (n: number): string => whole.format(n);
export const compact = (n: number): string => (n < 10_000 ? whole.format(n) : short.format(n));
export const decimals = (x: number | null | undefined, places = 2): string => (x === null || x === undefined ? "–" : x.toFixed(places));
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

export function percent(p: number): string {
  if (p > 0 && p < 0.01) return "< 1 %";
  if (p < 1 && p > 0.99) return "> 99 %";
  return `${Math.round(100 * p)} %`;
}

/** "head of has_capital" with the relation as words. */
export function classWords(label: string): string {
  return label.replace(/^(head|tail) of (.*)$/, (_, side: string, relation: string) => `${side} of ${words(relation)}`);
}

/** A relation name as words: has_capital, _hypernym, /people/person/place_of_birth, http://example.org/terms#partOf. */
export function words(relation: string): string {
  const last = relation.startsWith("/") ? steps(relation).slice(-2).join(" › ") : ending(relation);
  return last.replaceAll("_", " ").trim() || relation;
}

const steps = (name: string): string[] => name.split(/[/#]/).filter(Boolean);

/** The last part of a URL, because many URLs share their beginning. Other names stay whole. */
const ending = (name: string): string => (/^[a-z][a-z0-9+.-]*:\/\//i.test(name) && steps(name).at(-1)) || name;

const LONGEST = 24;

/** A short form of a label. */
export function brief(label: string): string {
  const text = ending(label);
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

/** Names of relations whose words equal those of another relation; the page then shows their full names. */
export function alike(relations: readonly { readonly name: string; readonly label: string }[]): ReadonlySet<string> {
  const first = new Map<string, string>();
  const found = new Set<string>();
  for (const { name, label } of relations) {
    const other = first.get(words(label));
    if (other === undefined) first.set(words(label), name);
    else found.add(other).add(name);
  }
  return found;
}
