/** Searches for entities and relations for the input fields. */
import { get, type Entity, type Relation } from "../client";
import { alike, count, plural } from "../numbers";
import type { Suggestion } from "./combobox";

const SHOWN = 8;
/** The longest search text that the service accepts; longer labels are searched by their beginning. */
const READ = 200;

export async function findEntities(run: string, text: string, signal: AbortSignal): Promise<readonly Suggestion[]> {
  const found = await get<{ entities: readonly Entity[] }>("entities", { run, q: text.slice(0, READ), limit: SHOWN }, signal);
  const twice = new Set(found.entities.map((one) => one.label).filter((label, i, all) => all.indexOf(label) !== i));
  return found.entities.map((one) => ({
    ...one,
    note: twice.has(one.label) ? `${one.name}, ${plural(one.degree, "fact")}` : plural(one.degree, "fact"),
  }));
}

export async function findRelations(run: string, text: string, signal: AbortSignal): Promise<readonly Suggestion[]> {
  const found = await get<{ relations: readonly Relation[] }>("relations", { run, q: text.slice(0, READ), limit: 4 * SHOWN }, signal);
  const twice = alike(found.relations);
  return found.relations.map((one) => ({ ...one, note: twice.has(one.name) ? `${one.name}, ${count(one.train)}` : count(one.train) }));
}
