// Light or dark: as the system has it, until somebody says otherwise.

import { button } from "./dom";

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

export function themeSwitch(changed: () => void): HTMLButtonElement {
  let now: Theme = "system";
  const element = button("", () => set(THEMES[(THEMES.indexOf(now) + 1) % 3] ?? "system"), {
    title: "Light or dark",
  });
  function set(theme: Theme): void {
    now = theme;
    const root = document.documentElement;
    if (theme === "system") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
    element.textContent = `Theme: ${theme}`;
    changed();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  element.textContent = `Theme: ${now}`;
  return element;
}
