/** Shared by plots: their width, and round numbers for their axes. */
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** The current width of an element. */
export function useWidth(): [RefObject<HTMLDivElement | null>, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    if (!box.current) return;
    const seen = new ResizeObserver(([entry]) => { if (entry) setWidth(Math.max(200, entry.contentRect.width)); });
    seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  return [box, width];
}

export const digits = (levels: readonly number[]): number => ((levels[1] ?? 1) - (levels[0] ?? 0) < 0.0099 ? 3 : 2);

/** About `wanted` round numbers from low to high. */
export function ticks(low: number, high: number, wanted: number): number[] {
  const rough = Math.max(1e-6, (high - low) / wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((one) => one * power >= rough) ?? 10) * power;
  const from = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - from + 1) }, (_, i) => (from + i) * step);
}
