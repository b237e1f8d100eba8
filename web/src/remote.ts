/** A value that is being fetched: loading, ready or failed. */
import { useEffect, useState } from "preact/hooks";
import { RequestError } from "./client";

export type Remote<T> =
  | { readonly state: "loading"; readonly value: null; readonly stale: T | null }
  | { readonly state: "ready"; readonly value: T }
  | { readonly state: "failed"; readonly value: null; readonly error: RequestError; readonly retry: () => void };

/** Fetch whenever `key` changes; null fetches nothing and stays loading. The previous value is available as `stale`. */
export function useRemote<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Remote<T> {
  const [tries, setTries] = useState(0);
  const [held, setHeld] = useState<{ key: string | null; remote: Remote<T>; last: T | null }>({
    key: null,
    remote: { state: "loading", value: null, stale: null },
    last: null,
  });
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    const retry = (): void => {
      setHeld((old) => ({ ...old, key: null }));
      setTries((n) => n + 1);
    };
    load(stop.signal).then(
      (value) => {
        if (!stop.signal.aborted) setHeld({ key, remote: { state: "ready", value }, last: value });
      },
      (reason: unknown) => {
        if (stop.signal.aborted) return;
        const error = reason instanceof RequestError ? reason : new RequestError(0, String(reason), "");
        setHeld({ key, remote: { state: "failed", value: null, error, retry }, last: null });
      },
    );
    return () => stop.abort();
  }, [key, tries]);
  return held.key === key && key !== null ? held.remote : { state: "loading", value: null, stale: held.last };
}

export function useDelayed<T>(value: T, milliseconds: number): T {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value, milliseconds]);
  return late;
}
