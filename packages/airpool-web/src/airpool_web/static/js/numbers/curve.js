// The predicted accuracy on its curve: the figure, its legend, and the same as a table.

import { el, fill } from "../dom.js";
import { accuracy as shown, plain } from "../words.js";
import { figure } from "./figure.js";

const HEIGHT = 360;

/** The section. @param {import("../main.js").Context} context */
export function curveSection({ answers, theme }) {
  const place = el("div", { class: "figure" });
  const state = el("p", { class: "soft state", role: "status" }, "The curve is computed after the other numbers.");
  const told = el("p", { class: "sentence" });
  const rows = el("tbody");
  const details = el("details", { class: "more" }, el("summary", {}, "The curve as a table"),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The curve as a table" }, el("table", {},
      el("thead", {}, el("tr", {}, ["ε", "accuracy", "95 % interval", "vote"].map((text) => el("th", { class: "number", scope: "col" }, text)))), rows)));

  const keys = legend();

  function draw() {
    const { curve, accuracy } = answers.parts;
    const width = Math.max(280, Math.floor(place.clientWidth));
    if (!curve || !place.clientWidth) return;
    fill(place, figure({ curve, here: accuracy, colours: theme.colour, width, height: HEIGHT }).root);
    keys.vote.hidden = !curve.vote?.some((point) => point !== null);
    keys.paper.hidden = !curve.paper?.length;
    if (details.open) fillTable(curve);
  }

  function fillTable(curve) {
    const cell = (text) => el("td", { class: "number" }, text);
    fill(rows, curve.epsilon.map((at, index) => {
      const ours = curve.ours?.[index];
      const vote = curve.vote?.[index];
      return el("tr", {}, cell(plain(at)), cell(shown(ours?.mean)), cell(ours?.low === undefined ? "–" : `${shown(ours.low)} to ${shown(ours.high)}`), cell(shown(vote?.mean ?? vote)));
    }));
  }

  details.addEventListener("toggle", () => details.open && answers.parts.curve && fillTable(answers.parts.curve));
  new ResizeObserver(draw).observe(place);
  theme.onChange(draw);
  answers.on("curve", draw);
  answers.on("accuracy", (found) => {
    draw();
    const vote = found.vote ? ` The vote, which needs no training: ${shown(found.vote.mean ?? found.vote)}.` : "";
    told.textContent = `Accuracy ${shown(found.mean)}; 95 % interval, for the noise and the choice of objects: ${shown(found.low)} to ${shown(found.high)}. `
      + `Without noise it is ${shown(found.no_noise)}, by chance ${shown(found.chance)}.${vote} ${found.data ?? ""}${found.note ? `. ${found.note}` : ""}`;
  });
  answers.onState(({ parts, pending, busy }) => {
    const done = parts.curve?.progress ?? 1;
    if (!busy && !parts.curve) fill(place, el("p", { class: "soft" }, "No curve."));
    if (!busy) state.textContent = parts.curve ? "" : "There is no curve for this setting.";
    else if (parts.curve && !pending.has("curve") && done < 1) state.textContent = `Computing the curve: ${Math.round(100 * done)} %`;
    else if (!parts.curve || pending.has("curve")) state.textContent = "The curve shown is of the last setting; the new one follows.";
    place.setAttribute("aria-busy", String(busy && (pending.has("curve") || done < 1)));
  });

  return el("section", { class: "card wide", id: "curve" }, el("h2", {}, "Predicted accuracy"), told, place, keys.root, state, details);
}

function legend() {
  const key = (name, text) => el("li", {}, el("span", { class: `key ${name}`, "aria-hidden": "true" }), text);
  const [vote, paper] = [key("vote", "vote"), key("paper", "points that the paper prints, at the ε it claims")];
  const root = el("ul", { class: "legend", "aria-label": "Legend" }, key("ours", "airpool"), key("interval", "95 % interval of the accuracy"), vote, paper, key("here", "you are here"));
  return { root, vote, paper };
}
