// The theme: the system's, light or dark. It is kept in the browser, not in the address.

const THEMES = ["system", "light", "dark"];

/** The theme in force: what was chosen, or the system's. @returns {"light" | "dark"} */
export function current() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** The value of a colour of tokens.css, for what is drawn on a canvas: `colour("--ours")`. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Calls `then` whenever the theme changes, whoever changes it. */
export function onChange(then) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", then);
  addEventListener("airpool-theme", then);
}

/** Makes a button go through the themes. */
export function mount(button) {
  const say = () => {
    button.textContent = `Theme: ${document.documentElement.dataset.theme ?? "system"}`;
  };
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "system";
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("airpool-theme", next);
    } catch {
      // The theme holds until the page is closed.
    }
    say();
    dispatchEvent(new Event("airpool-theme"));
  });
  say();
}
