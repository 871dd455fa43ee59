// ε of every device, and the odds of a guess. These are privacy parameters and bounds: nothing here is an interval.

import { el, fill } from "../dom.js";
import { epsilon, number, percent, plain, run, runs } from "../words.js";

const KINDS = { epsilon: "The device's ε", epsilon_local: "The local ε", epsilon_object: "The object's ε", epsilon_eavesdropper: "The eavesdropper's ε" };
const value = (x) => (Number.isFinite(number(x)) ? String(x) : "inf");
const cell = (x, text) => el("td", { class: "number", "data-value": value(x) }, text(x));
const scrolled = (label, table) => el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
const heads = (texts) => el("thead", {}, el("tr", {}, texts.map(([text, kind]) => el("th", { scope: "col", class: kind }, text))));

/** ε of the devices; equal ones share a row, as on the command line. */
export function devicesSection({ answers }) {
  const rows = el("tbody");
  const told = el("p", { class: "sentence" });
  const notes = el("ul", { class: "plain" });
  answers.on("leakage", (found) => {
    const key = (row) => JSON.stringify([row.epsilon, row.epsilon_local, row.epsilon_paper, row.noise_std, row.participation]);
    fill(rows, runs(found.devices ?? [], key).map(({ first, last, row }) => el("tr", {},
      el("th", { scope: "row" }, run(first, last)),
      cell(row.epsilon, epsilon), cell(row.epsilon_local, epsilon), cell(row.epsilon_paper, epsilon), cell(row.noise_std, plain), cell(row.participation, plain))));
    told.textContent = `Privacy parameters at δ = ${plain(found.delta)}; smaller is more private. The object itself: ε = ${epsilon(found.epsilon_object)}.`
      + (found.epsilon_eavesdropper ? ` An eavesdropper with antennas of their own: ε = ${epsilon(found.epsilon_eavesdropper)}.` : "");
    const reasons = Object.entries(found.infinite ?? {}).map(([which, why]) => `${KINDS[which] ?? which} is infinite: ${why}.`);
    fill(notes, [...reasons, found.paper?.sentence].filter(Boolean).map((text) => el("li", {}, text)));
  });
  return el("section", { class: "card", id: "devices" }, el("h2", {}, "ε of each device"), told,
    scrolled("ε of each device", el("table", {},
      heads([["device"], ["device ε", "number"], ["local ε", "number"], ["paper's claim", "number paper"], ["noise σ", "number"], ["p", "number"]]), rows)),
    notes,
    el("dl", { class: "terms" },
      el("dt", {}, "device ε"), el("dd", {}, "what the received sum tells about one device's view; the other devices' noise counts."),
      el("dt", {}, "local ε"), el("dd", {}, "the same where nobody else is trusted, or an antenna stands beside the device."),
      el("dt", {}, "object ε"), el("dd", {}, "all views change at once: the object itself, which a device's ε does not protect."),
      el("dt", {}, "p"), el("dd", {}, "probability that the device transmits.")));
}

/** Odds of a guess at a secret that one view shows. */
export function oddsSection({ answers }) {
  const rows = el("tbody");
  const words = el("ul", { class: "plain" });
  answers.on("leakage", ({ odds }) => {
    const kinds = [["yes or no", odds?.even], ["one of many", odds?.rare]].filter(([, row]) => row);
    fill(rows, kinds.map(([name, row]) => el("tr", {}, el("th", { scope: "row" }, name),
      cell(row.prior, percent), cell(row.device, percent), cell(row.local, percent), cell(row.object, percent))));
    fill(words, (odds?.sentences ?? []).map((text) => el("li", {}, text)));
  });
  return el("section", { class: "card", id: "odds" }, el("h2", {}, "Odds in plain words"),
    el("p", { class: "sentence" }, "How often a guess is right at most, whatever the adversary computes: from the sum, from the device's own signal, and for what several devices see."),
    scrolled("Odds of a guess", el("table", {},
      heads([["a guess at"], ["no signal", "number"], ["from the sum", "number"], ["own signal", "number"], ["several devices", "number"]]), rows)),
    words);
}

/** What the numbers hold for. */
export function assumptionsSection({ answers }) {
  const list = el("ul", {});
  const notes = el("ul", { class: "plain" });
  answers.on("leakage", ({ assumptions }) => fill(list, (assumptions ?? []).map((text) => el("li", {}, text))));
  answers.on("network", (found) => fill(notes, (found.notes ?? []).map((text) => el("li", {}, text))));
  return el("section", { class: "card", id: "assumptions" }, el("h2", {}, "This holds if"), list, notes);
}
