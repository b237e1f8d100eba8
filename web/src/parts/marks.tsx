/** Small components that several pages share. */
import { Fragment, type VNode } from "preact";
import type { Named } from "../client";
import { percent, words } from "../numbers";

const FEW = 3;

export function Badge({ known, guess = false }: { known: boolean; guess?: boolean }): VNode {
  if (guess) return <span class="badge guess" title="Not in the graph, and its probability is below the chosen limit">guess</span>;
  return known ? (
    <span class="badge" title="Already in the graph">known</span>
  ) : (
    <span class="badge new" title="Not in the graph: predicted by the model">new</span>
  );
}

export function Meter({ share, text, title }: { share: number; text: string; title?: string }): VNode {
  const width = `${Math.round(100 * Math.max(0, Math.min(1, share)))}%`;
  return (
    <span class="meter" title={title}>
      <span class="track"><span style={{ width }} /></span>
      <span class="reading">{text}</span>
    </span>
  );
}

export function Probability({ p }: { p: number }): VNode {
  return <Meter share={p} text={percent(p)} title={`Probability ${p.toFixed(3)}, calibrated on held-out facts: about ${Math.round(100 * p)} of 100 such answers are correct`} />;
}

/** A name that wraps after an underscore or a slash instead of in the middle of a word. */
export function Label({ text }: { text: string }): VNode {
  return <>{text.split(/(?<=[_/])/).map((part, i) => <Fragment key={i}>{i > 0 && <wbr />}{part}</Fragment>)}</>;
}

export function RelationName({ name, label }: { name: string; label: string }): VNode {
  const read = words(label);
  return <span class="relation" title={read === name ? undefined : name}>{read}</span>;
}

/** The symbol of a form; the letter after the underscore in 5★ε_n becomes a subscript. */
export function Symbol({ text }: { text: string }): VNode {
  const [sign, letter] = text.startsWith("5★") ? text.split("_") : [text];
  return <>{sign}{letter && <sub>{letter}</sub>}</>;
}

/** A warning for names without training facts: their embeddings are still the random initial values. */
export function Untrained({ names }: { names: readonly Named[] }): VNode | null {
  if (names.length === 0) return null;
  const more = names.length - FEW;
  return (
    <p class="soft summary untrained">
      The model has learned nothing about {names.slice(0, FEW).map((one, i) => <span key={i}>{i > 0 && ", "}<b>{one.label}</b></span>)}
      {more > 0 && ` and ${more} more`}: {names.length === 1 ? "it occurs" : "they occur"} in no training fact.
    </p>
  );
}
