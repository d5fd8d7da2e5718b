// Light or dark: as the system says until somebody chooses.

import { storage } from "./storage.js";

const KEY = "contextual-bert-theme";
const kept = storage("localStorage");

export function setUpTheme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    const chosen = kept.getItem(KEY);
    const isDark = chosen ? chosen === "dark" : system.matches;
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(isDark));
  };
  button.addEventListener("click", () => {
    kept.setItem(KEY, document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    show();
  });
  system.addEventListener("change", show);
  show();
}
