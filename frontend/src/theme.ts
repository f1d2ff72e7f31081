/** Light, dark, or as the system says. */

import { useEffect, useState } from "preact/hooks";
import { store, stored } from "./api";

export type Theme = "system" | "light" | "dark";
const NAME = "rollout-theme";
const THEMES: readonly Theme[] = ["system", "light", "dark"];
const listeners = new Set<() => void>();
const system = matchMedia("(prefers-color-scheme: dark)");

let theme: Theme = THEMES.find((each) => each === stored(NAME)) ?? "system";

function apply(): void {
  const isDark = theme === "dark" || (theme === "system" && system.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  for (const listener of listeners) listener();
}

system.addEventListener("change", apply);
apply();

export function nextTheme(): void {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
  store(NAME, theme === "system" ? null : theme);
  apply();
}

/** The theme, and whether it comes out dark. */
export function useTheme(): { theme: Theme; isDark: boolean } {
  const [, update] = useState(0);
  useEffect(() => {
    const listener = () => update((before) => before + 1);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
    };
  }, []);
  return { theme, isDark: document.documentElement.dataset.theme === "dark" };
}

/** A colour of the style sheet, for what is drawn on a canvas. */
export function cssColor(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
