// The designs as tables: the frontier, the runners-up, and what cannot be built.

import { accuracy, epsilon, plain } from "../words.js";

const HEAD = ["design", "ε", "local ε", "accuracy", "95 % interval", "energy, mW·uses", "channel uses", "load"];

/** @param {{el: Function, plan: object, points: object[], load: (design: object) => void, same: (design: object) => boolean, open: Set<string>}} what open: the tables that are unfolded. */
export function designs({ el, plan, points, load, same, open }) {
  const ours = points.filter((point) => point.kind === "ours");
  const paper = points.filter((point) => point.kind === "paper");

  function row(design, index, name) {
    const here = same(design);
    const cells = [epsilon(design.epsilon), epsilon(design.epsilon_local), accuracy(design.accuracy), `${accuracy(design.low)} to ${accuracy(design.high)}`,
      design.bytes ? "–" : plain(design.energy, 3), design.bytes ? "–" : plain(design.channel_uses)];
    return el("tr", { class: here ? "here" : null }, el("th", { scope: "row" }, design.words), cells.map((text) => el("td", { class: "number" }, text)),
      el("td", {}, el("button", { type: "button", "data-design": `${name}-row-${index}`, "aria-label": `Load ${design.words}, ε = ${epsilon(design.epsilon)}`, "aria-pressed": String(here),
        onclick: () => load(design) }, here ? "Loaded" : "Load")));
  }

  function table(title, rows, name, note) {
    if (!rows.length) return null;
    return el("details", { open: open.has(name), ontoggle: (event) => (event.target.open ? open.add(name) : open.delete(name)) }, el("summary", {}, title), note ? el("p", { class: "soft" }, note) : null,
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, el("table", {},
        el("thead", {}, el("tr", {}, HEAD.map((text, index) => el("th", { scope: "col", class: index > 0 && index < 7 ? "number" : null }, text)))),
        el("tbody", {}, rows.map((each, index) => row(each, index, name))))));
  }

  const impossible = plan.impossible.length
    ? el("details", {}, el("summary", {}, `Not possible here: ${plan.impossible.length}`), el("ul", {}, plan.impossible.map((each) => el("li", {}, `${each.words}: ${each.why}`))))
    : null;
  return [
    table("The frontier", ours, "ours"),
    table("The paper’s network at the same ε", paper, "paper", "Its codec q16, participation 0.9, and the noise that the exact ε asks for."),
    table("Runners-up", plan.others, "others", "Designs that left the search early were simulated with fewer runs."),
    impossible,
  ];
}
