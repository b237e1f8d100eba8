/** A typed client of the HTTP interface, which docs/api.md describes. */
import type { Scene } from "./draw/sphere";

export interface Named { readonly name: string; readonly label: string }
export interface Entity extends Named { readonly degree: number }
export interface Fact { readonly head: Named; readonly relation: Named; readonly tail: Named }
export type Side = "head" | "relation" | "tail";
export const SIDES: readonly Side[] = ["head", "relation", "tail"];
/** Marks the unknown of a question. An entity with this name cannot be asked about. */
export const UNKNOWN = "?";

export interface Answer {
  readonly entity: string;
  readonly label: string;
  readonly score: number;
  readonly known: boolean;
  readonly probability: number | null;
}
export interface Answered {
  readonly asked: Side;
  readonly question: Readonly<Record<Side, Named | null>>;
  readonly answers: readonly Answer[];
  readonly untrained: readonly Named[];
}
export interface Scored extends Fact {
  readonly score: number;
  readonly rank: number;
  readonly known: boolean;
  readonly probability: number | null;
}
export interface Judged { readonly scores: readonly Scored[]; readonly untrained: readonly Named[] }
export interface Similar { readonly entity: string; readonly label: string; readonly score: number; readonly linked: boolean }
export interface Direction { readonly mrr: number; readonly "hits@1": number; readonly "hits@10": number; readonly questions: number }
export interface Pattern { readonly pattern: string; readonly other: Named; readonly support: number; readonly confidence: number }
export interface Relation extends Named {
  readonly train: number;
  readonly valid: number;
  readonly test: number;
  readonly tails_per_head: number | null;
  readonly heads_per_tail: number | null;
  readonly cardinality: string | null;
  readonly patterns: readonly Pattern[];
  readonly ranks: { readonly tail: Direction | null; readonly head: Direction | null };
}
export interface HeldFact extends Fact { readonly split: "train" | "valid" | "test" }
export interface EgoNode extends Entity { readonly hops: number }
export interface EgoEdge { readonly source: string; readonly target: string; readonly relation: Named }
export interface EntityView {
  readonly entity: Entity;
  readonly total: number;
  readonly facts: readonly HeldFact[];
  readonly graph: { readonly nodes: readonly EgoNode[]; readonly edges: readonly EgoEdge[] };
}
export interface Explanation {
  readonly fact: Fact;
  readonly score: number;
  readonly known: boolean;
  readonly probability: number | null;
  readonly supports: readonly (Fact & { readonly strength: number })[];
  readonly paths: readonly { readonly strength: number | null; readonly steps: readonly Fact[] }[];
}
export interface Mined extends Fact { readonly score: number; readonly plausibility: number; readonly probability: number | null; readonly rank: number }
export interface MapView {
  readonly method: string;
  readonly methods: readonly string[];
  readonly total: number;
  readonly count: number;
  readonly names: readonly string[];
  readonly labels: readonly string[];
  readonly x: readonly number[];
  readonly y: readonly number[];
  readonly degree: readonly number[];
  readonly class: readonly number[];
  readonly classes: readonly { readonly label: string; readonly count: number }[];
}
export interface GeometryView {
  readonly run: string;
  readonly form: string;
  readonly symbol: string;
  readonly relation: Named;
  readonly reading: "trained" | "mobius" | null;
  readonly note: string;
  readonly entity: Named | null;
  readonly coordinates: { readonly kind: readonly string[]; readonly weight: readonly number[] };
  readonly scene: Scene | null;
}
export interface Metrics { readonly mrr: number | null; readonly "hits@1": number | null; readonly "hits@10": number | null }
export interface RunView {
  readonly name: string;
  readonly data: string;
  readonly form: string;
  readonly symbol: string;
  readonly rank: number;
  readonly entities: number;
  readonly relations: number;
  readonly train: number;
  readonly parameters: number;
  readonly calibrated: boolean;
  readonly metrics: { readonly valid: Metrics | null; readonly test: Metrics | null };
}
export interface Runs { readonly conjoin: string; readonly runs: readonly RunView[]; readonly limits: Readonly<Record<string, number>> }
export interface StudyHead { readonly name: string; readonly title: string; readonly cells: number; readonly datasets: readonly string[] }

export class RequestError extends Error {
  constructor(readonly status: number, reason: string, readonly hint: string) {
    super(reason);
  }
}

type Parameters = Record<string, string | number | boolean | null | undefined>;
const TOKEN = "conjoin-token";
const REMEMBERED = 60;
const remembered = new Map<string, unknown>();

let token = storedToken();

function storedToken(): string | null {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null; // Storage is blocked: the token lasts until the page is closed.
  }
}

export function keepToken(given: string): void {
  token = given.replaceAll(/[^ -~]/g, ""); // A header cannot carry other characters, such as invisible ones from pasting.
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // As above.
  }
}

export function hasToken(): boolean {
  return token !== null;
}

export function addressOf(path: string, parameters: Parameters = {}): string {
  const address = new URL(path, new URL(".", document.baseURI));
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") address.searchParams.set(key, String(value));
  }
  return address.href;
}

/** Answers are cached, because a run does not change while it is served. Going back is instant. */
export async function get<T>(path: string, parameters: Parameters, signal?: AbortSignal): Promise<T> {
  const address = addressOf(`v1/${path}`, parameters);
  if (remembered.has(address)) return remembered.get(address) as T;
  const found = await send<T>(address, { ...(signal ? { signal } : {}) });
  remembered.set(address, found);
  const oldest = remembered.keys().next();
  if (remembered.size > REMEMBERED && !oldest.done) remembered.delete(oldest.value);
  return found;
}

export function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return send<T>(addressOf(`v1/${path}`), {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
    ...(signal ? { signal } : {}),
  });
}

async function send<T>(address: string, request: RequestInit): Promise<T> {
  const headers = new Headers(request.headers);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  const reply = await fetch(address, { ...request, headers }).catch(unanswered);
  // Leaving the page or stopping the service cuts an answer off; treat an incomplete answer as none.
  const content: unknown = await reply.json().catch((error: unknown) => (error instanceof SyntaxError && !reply.ok ? null : unanswered(error)));
  if (reply.ok) return content as T;
  const details = (content as { error?: { reason?: string; hint?: string } } | null)?.error;
  throw new RequestError(reply.status, details?.reason ?? `The service returned status ${reply.status}.`, details?.hint ?? "");
}

function unanswered(error: unknown): never {
  if (error instanceof DOMException && error.name === "AbortError") throw error;
  throw new RequestError(0, "The service is not responding.", "Check that “conjoin serve” is running, then try again.");
}
