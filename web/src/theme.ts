/** Light or dark: the system's preference until the reader chooses. */
import { useEffect, useState } from "preact/hooks";

export type Theme = "light" | "dark";
const KEY = "conjoin-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function current(): Theme {
  const chosen = document.documentElement.dataset["theme"];
  return chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
}

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(current);
  useEffect(() => {
    const changed = (): void => setTheme(current());
    system.addEventListener("change", changed);
    return () => system.removeEventListener("change", changed);
  }, []);
  const turn = (): void => {
    const next: Theme = current() === "dark" ? "light" : "dark";
    document.documentElement.dataset["theme"] = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Storage is blocked: the choice lasts until the page is closed.
    }
    setTheme(next);
  };
  return [theme, turn];
}
