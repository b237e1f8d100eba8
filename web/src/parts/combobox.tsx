/** A field that suggests names while the reader types (ARIA combobox pattern: arrows, Enter or Tab, Escape). */
import type { VNode } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Named } from "../client";
import { plural } from "../numbers";
import { useDelayed, useRemote } from "../remote";

export interface Suggestion extends Named {
  readonly note?: string;
}
interface Props {
  readonly label: string;
  /** Tooltip of the label. */
  readonly hint?: string;
  readonly value: Named | null;
  readonly placeholder?: string;
  readonly show?: (label: string) => string;
  /** A key for what `find` depends on, such as the run; a new key searches again. */
  readonly source: string;
  readonly find: (text: string, signal: AbortSignal) => Promise<readonly Suggestion[]>;
  readonly pick: (chosen: Named | null) => void;
  /** False if there is always a value: an emptied field gets its value back. */
  readonly clearable?: boolean;
  readonly id?: string;
}

const PAUSE = 120;
const same = (label: string): string => label;

export function Combobox({ label, hint, value, placeholder = "?", show = same, source, find, pick, clearable = true, id }: Props): VNode {
  const made = useId();
  const field = id ?? `combobox${made}`;
  const chosen = value ? show(value.label) : "";
  const [text, setText] = useState(chosen);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const [hasty, setHasty] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => setText(chosen), [chosen]);

  const wanted = useDelayed(text === chosen ? "" : text.trim(), PAUSE);
  const found = useRemote(open ? `${source} ${wanted}` : null, (signal) => find(wanted, signal));
  const settled = found.state === "ready" && wanted === (text === chosen ? "" : text.trim());
  const options = found.state === "ready" ? found.value : found.state === "loading" ? (found.stale ?? []) : [];
  useEffect(() => setAt(text === chosen ? -1 : 0), [wanted, found.state, open]);
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);

  const take = (option: Suggestion): void => {
    setOpen(false);
    setText(show(option.label));
    pick({ name: option.name, label: option.label });
  };
  // Enter before the suggestions have arrived takes the first one.
  useEffect(() => {
    if (!hasty || !settled) return;
    setHasty(false);
    if (options[0]) take(options[0]);
  }, [hasty, settled]);
  const clear = (): void => {
    setText("");
    setOpen(false);
    pick(null);
  };
  const leave = (): void => {
    setOpen(false);
    setHasty(false);
    if (text === chosen) return;
    if (text.trim() === "" && clearable) pick(null);
    else setText(chosen);
  };
  const key = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      if (!open) setOpen(true);
      else if (options.length) setAt((i) => (i + step + options.length) % options.length);
    } else if (event.key === "Enter") {
      const option = open && settled ? options[at] : undefined;
      if (option) take(option);
      else if (open && !settled && text.trim() !== "" && text !== chosen) setHasty(true);
      else if (text.trim() === "" && value && clearable) clear();
      if (open || text !== chosen) event.preventDefault();
    } else if (event.key === "Tab" && !event.shiftKey) {
      const option = open && settled && text !== chosen ? options[at] : undefined;
      if (!option) return;
      take(option);
      if (document.activeElement !== input.current) event.preventDefault();
    } else if (event.key === "Escape") {
      if (open) event.preventDefault();
      setOpen(false);
      setHasty(false);
      setText(chosen);
    }
  };
  return (
    <div class={`combobox ${value ? "filled" : ""}`}>
      <label for={field} title={hint}>{label}</label>
      <div class="field">
        <input
          ref={input}
          id={field}
          role="combobox"
          type="text"
          autocomplete="off"
          spellcheck={false}
          aria-autocomplete="list"
          aria-expanded={open}
          aria-controls={open ? `${field}-list` : undefined}
          aria-activedescendant={open && options[at] ? `${field}-${at}` : undefined}
          placeholder={placeholder}
          value={text}
          title={value && value.name !== value.label ? value.name : undefined}
          onInput={(event) => { setHasty(false); setText(event.currentTarget.value); setOpen(true); }}
          onFocus={(event) => event.currentTarget.select()}
          onClick={() => setOpen(true)}
          onBlur={leave}
          onKeyDown={key}
        />
        {value && clearable && (
          <button type="button" class="quiet clear" aria-label={`Clear ${label.toLowerCase()}`} onClick={() => { clear(); input.current?.focus(); }}>
            ×
          </button>
        )}
      </div>
      {open && (
        <ul class="options" id={`${field}-list`} role="listbox" aria-label={`${label}: suggestions`} ref={list}>
          {options.map((option, i) => (
            <li
              key={option.name}
              id={`${field}-${i}`}
              role="option"
              aria-selected={i === at}
              onMouseDown={(event) => { event.preventDefault(); take(option); }}
              onMouseMove={() => { if (i !== at) setAt(i); }}
            >
              <span>{show(option.label)}</span>
              {option.note && <span class="soft">{option.note}</span>}
            </li>
          ))}
          {options.length === 0 && (
            <li class="none soft">{found.state === "failed" ? found.error.message : found.state === "ready" ? `No match for “${text}”` : "Searching…"}</li>
          )}
        </ul>
      )}
      <span class="hidden" role="status">{open && settled && wanted ? (options.length ? plural(options.length, "suggestion") : "no matches") : ""}</span>
    </div>
  );
}
