// Runs before the first paint, so that a chosen theme does not flash.
try {
  const chosen = localStorage.getItem("conjoin-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be forbidden: then the system's preference holds.
}
