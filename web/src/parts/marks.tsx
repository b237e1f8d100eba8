/** Small signs that several pages share. */
import { Fragment, type VNode } from "preact";
import type { Named } from "../client";
import { percent, words } from "../numbers";

const FEW = 3;

export function Badge({ known, guess = false }: { known: boolean; guess?: boolean }): VNode {
  if (guess) return <span class="badge guess" title="The graph does not hold this fact, and its probability is below the chosen one">guess</span>;
  return known ? (
    <span class="badge" title="The graph holds this fact already">known</span>
  ) : (
    <span class="badge new" title="The graph does not hold this fact: a prediction">new</span>
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
  return <Meter share={p} text={percent(p)} title={`Calibrated probability ${p.toFixed(3)}`} />;
}

/** A name that may be broken after an underscore or a slash rather than in the middle of a word. */
export function Label({ text }: { text: string }): VNode {
  return <>{text.split(/(?<=[_/])/).map((part, i) => <Fragment key={i}>{i > 0 && <wbr />}{part}</Fragment>)}</>;
}

export function RelationName({ name, label }: { name: string; label: string }): VNode {
  const read = words(label);
  return <span class="relation" title={read === name ? undefined : name}>{read}</span>;
}

/** 5★ε_n with its letter below the line. */
export function Symbol({ text }: { text: string }): VNode {
  const [sign, letter] = text.startsWith("5★") ? text.split("_") : [text];
  return <>{sign}{letter && <sub>{letter}</sub>}</>;
}

/** What is said about names that no training fact has comes from first, random numbers. */
export function Untrained({ names }: { names: readonly Named[] }): VNode | null {
  if (names.length === 0) return null;
  const more = names.length - FEW;
  return (
    <p class="soft summary">
      Nothing is learned about {names.slice(0, FEW).map((one, i) => <span key={i}>{i > 0 && ", "}<b>{one.label}</b></span>)}
      {more > 0 && ` and ${more} more`}: no training fact has {names.length === 1 ? "it" : "them"}.
    </p>
  );
}
