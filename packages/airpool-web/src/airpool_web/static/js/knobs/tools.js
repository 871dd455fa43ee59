// Undo, redo and reset, by button and by key; the link to this very state.

import { el } from "../dom.js";
import { copied } from "./clipboard.js";

const WRITES = 'input:not([type="range"], [type="radio"], [type="checkbox"]), textarea, select, [contenteditable]';

/** The buttons above the settings. @param {import("../store.js").Store} store */
export function tools(store) {
  const undo = el("button", { type: "button", id: "undo", onclick: () => store.undo(), title: "Ctrl+Z" }, "Undo");
  const redo = el("button", { type: "button", id: "redo", onclick: () => store.redo(), title: "Ctrl+Shift+Z" }, "Redo");
  const reset = el("button", { type: "button", id: "reset", onclick: () => store.replace({}) }, "Reset");
  const told = el("span", { class: "told", role: "status" });
  const link = el("button", { type: "button", id: "copy-link" }, "Copy link");
  link.addEventListener("click", async () => {
    const hash = new URLSearchParams(store.state).toString();
    told.textContent = (await copied(`${location.origin}${location.pathname}#${hash}`)) ? "Link copied." : "The address bar holds the link.";
    setTimeout(() => (told.textContent = ""), 4_000);
  });
  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || event.target.closest?.(WRITES)) return;
    event.preventDefault();
    if (event.shiftKey) store.redo();
    else store.undo();
  });
  const update = () => {
    undo.disabled = !store.canUndo;
    redo.disabled = !store.canRedo;
    reset.disabled = Object.keys(store.settings).length === 0;
  };
  return { root: el("div", { class: "tools", role: "group", "aria-label": "Changes" }, undo, redo, reset, link, told), update };
}
