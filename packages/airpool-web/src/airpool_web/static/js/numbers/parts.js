// The error of the sum by its causes, and what an inference costs.

import { el, fill } from "../dom.js";
import { number, plain } from "../words.js";

/** The mean square error as a bar of its parts, each with its number. */
export function errorSection({ answers }) {
  const bar = el("div", { class: "stack", "aria-hidden": "true" });
  const list = el("ul", { class: "parts" });
  const told = el("p", { class: "sentence" });
  answers.on("mse", (found) => {
    const parts = found.parts ?? [];
    const total = parts.reduce((sum, part) => sum + (Number.isFinite(number(part.value)) ? number(part.value) : 0), 0);
    if (bar.children.length !== parts.length) {
      fill(bar, parts.map((_, index) => el("span", { class: `part part-${index % 6}` })));
      fill(list, parts.map((_, index) => el("li", {}, el("span", { class: `key part-${index % 6}`, "aria-hidden": "true" }), el("span"), " ", el("strong"), el("span", { class: "help" }))));
    }
    parts.forEach((part, index) => {
      bar.children[index].style.flexGrow = String(total > 0 ? number(part.value) / total : 0);
      const [, name, amount, help] = list.children[index].children;
      name.textContent = part.name.replaceAll("_", " ");
      amount.dataset.value = part.value;
      amount.textContent = plain(part.value, 3) + (total > 0 ? ` (${Math.round((100 * number(part.value)) / total)} %)` : "");
      help.textContent = part.help ?? "";
    });
    told.textContent = `The received sum differs from the ideal one by ${plain(found.total, 3)} in the mean square. ${found.note ?? ""}`;
    told.dataset.value = found.total;
    bar.hidden = parts.length === 0;
  });
  return el("section", { class: "card", id: "mse" }, el("h2", {}, "Error of the sum, and its parts"), told, bar, list);
}

const COSTS = { energy: ["Energy of all devices", "mW · channel uses"], slots: ["Slots, on average", ""] };

/** Energy and channel uses. */
export function costSection({ answers }) {
  const list = el("dl", { class: "figures" });
  const words = el("ul", { class: "plain" });
  answers.on("cost", (found) => {
    const known = Object.entries(found).filter(([name, value]) => typeof value === "number" && !(name === "slots" && value === 1));
    fill(list, known.map(([name, value]) => {
      const [title, unit] = COSTS[name] ?? named(name);
      return el("div", {}, el("dt", {}, title), el("dd", { "data-value": value }, `${plain(value)}${unit ? ` ${unit}` : ""}`));
    }));
    fill(words, [found.sentences ?? []].flat().map((text) => el("li", {}, text)));
  });
  return el("section", { class: "card", id: "cost" }, el("h2", {}, "What an inference costs"), list, words);
}

function named(name) {
  const text = name.replaceAll("_", " ");
  return [text[0].toUpperCase() + text.slice(1), ""];
}
