"use strict";
// Light or dark as Airflow's UI around this frame is; else as it was last chosen there; else as the system says.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  function outer() {
    try {
      return window.parent !== window ? window.parent.document.documentElement : null;
    } catch {
      return null; // framed by another site: its document is none of our business
    }
  }
  function chosen() {
    const around = outer();
    if (around?.classList.contains("dark")) return "dark";
    if (around?.classList.contains("light")) return "light";
    try {
      const stored = localStorage.getItem("theme");
      if (stored === "dark" || stored === "light") return stored;
    } catch { /* storage is forbidden here */ }
    return system.matches ? "dark" : "light";
  }
  function apply() { root.dataset.theme = chosen(); }
  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  const around = outer();
  if (around) new MutationObserver(apply).observe(around, { attributes: true, attributeFilter: ["class"] });
})();
