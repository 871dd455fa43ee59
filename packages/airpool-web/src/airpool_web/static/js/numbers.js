// The numbers of the network in the address: accuracy on its curve, ε, odds, error, cost, assumptions.

import { curveSection } from "./numbers/curve.js";
import { costSection, errorSection } from "./numbers/parts.js";
import { assumptionsSection, devicesSection, oddsSection } from "./numbers/tables.js";

/** Mounts the view into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export function mount(root, context) {
  const { dom, answers } = context;
  const sections = dom.el("div", { class: "numbers" },
    curveSection(context),
    dom.el("div", { class: "column" }, devicesSection(context), errorSection(context)),
    dom.el("div", { class: "column" }, oddsSection(context), costSection(context), assumptionsSection(context)));
  dom.fill(root, sections);
  const needs = { devices: "leakage", odds: "leakage", assumptions: "leakage", mse: "mse", cost: "cost" };
  answers.onState(({ pending, busy, parts }) => {
    for (const [id, part] of Object.entries(needs)) {
      sections.querySelector(`#${id}`).setAttribute("aria-busy", String(busy && (pending.has(part) || !parts[part])));
    }
  });
}
