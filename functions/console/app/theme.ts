import { Store, useStore } from "./store";

export type Theme = "system" | "light" | "dark";

const storageKey = "console.theme";
const order: Theme[] = ["system", "light", "dark"];

const theme = new Store<Theme>(stored());

function stored(): Theme {
  const value = localStorage.getItem(storageKey);
  return order.find((known) => known === value) ?? "system";
}

/** Shows the stored theme. The page has the system's until then. */
export function applyTheme(): void {
  if (theme.value === "system") {
    delete document.documentElement.dataset["theme"];
  } else {
    document.documentElement.dataset["theme"] = theme.value;
  }
}

export function cycleTheme(): void {
  theme.set(order[(order.indexOf(theme.value) + 1) % order.length] ?? "system");
  localStorage.setItem(storageKey, theme.value);
  applyTheme();
}

export const useTheme = (): Theme => useStore(theme);

export const themeText = (value: Theme): string => (value === "system" ? "as the system" : value);
