// Networks to start from, each with a sentence.

import { el } from "../dom.js";

const sorted = (settings) => JSON.stringify(Object.entries(settings).map(([name, value]) => [name, String(value)]).sort());

/** Buttons for the presets; the one in force is marked. @param {object[]} presets @param {import("../store.js").Store} store */
export function presets(list, store) {
  const buttons = list.map((preset) => {
    const button = el("button", { type: "button", class: "preset", "data-preset": preset.name, onclick: () => store.replace(preset.settings) },
      el("strong", {}, preset.title), el("span", {}, preset.text));
    return { button, key: sorted(preset.settings) };
  });
  const update = () => {
    const now = sorted(store.settings);
    for (const { button, key } of buttons) button.setAttribute("aria-pressed", String(key === now));
  };
  return { root: el("div", { class: "presets" }, buttons.map(({ button }) => button)), update };
}
