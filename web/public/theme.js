// Runs before the first paint, so that the page never shows the wrong theme first.
try {
  const chosen = localStorage.getItem("conjoin-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be blocked; use the system's preference then.
}
