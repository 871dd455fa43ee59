// The ways in: the accuracy that is needed, or ε, or σ. The control of the chosen one stands below it, with its δ.

import { el } from "../dom.js";
import { accuracy, epsilon, plain } from "../words.js";
import { control } from "./control.js";

const WAYS = [
  { way: "accuracy", knob: "accuracy", title: "I need an accuracy of .90: which ε?", text: "airpool searches the least ε that reaches it, on the validation objects." },
  { way: "epsilon", knob: "epsilon", title: "I know ε", text: "airpool finds the least noise that keeps this promise to every device." },
  { way: "noise", knob: "noise_std", title: "I know σ", text: "You set the noise of a device; ε follows from it." },
];
/** What stands here and not in a group. */
export const OF_WAYS = new Set(["way", "delta", ...WAYS.map(({ knob }) => knob)]);

const ENDS = { private_end: "low", low_text: "more private", high_text: "more accurate" };
const DEFAULTS = {
  accuracy: { label: "Accuracy needed", kind: "number", default: 0.9, min: 0.1, max: 0.95, step: 0.005, scale: "linear",
    low_text: "more private", high_text: "more accurate", private_end: "low", help: "The share of objects that the server must name right." },
  epsilon: { label: "Privacy parameter", symbol: "ε", kind: "number", default: 2, min: 0.1, max: 20, scale: "log", ...ENDS,
    help: "The smaller ε, the less the received signal can tell about what one device alone has seen." },
  noise_std: { label: "Noise of a device", symbol: "σ", kind: "number", default: 0.05, min: 0.005, max: 2, scale: "log",
    private_end: "high", low_text: "more accurate", high_text: "more private", help: "Standard deviation of the noise, per coordinate." },
  delta: { label: "Slack of the promise", symbol: "δ", kind: "number", default: 1e-5, min: 1e-9, max: 1e-3, scale: "log",
    help: "ε always comes with its δ, a small probability for which it is not counted." },
};

/**
 * The ways in.
 * @param {object} knobs Of /api/knobs. @param {import("../store.js").Store} store
 * @param {(name: string, value: string, how: object) => void} change
 * @returns {{root: HTMLElement, controls: Record<string, ReturnType<typeof control>>, update: (network: object, leakage: object, search: object) => void}}
 */
export function ways(knobs, store, change) {
  const controls = {};
  const made = (name) => (controls[name] = control(name, knobs[name] ?? DEFAULTS[name], (value, how) => change(name, value, how)));
  const told = el("p", { class: "found", "aria-live": "polite" });
  const bodies = WAYS.map((each) => {
    const radio = el("input", { type: "radio", name: "way", id: `way-${each.way}`, value: each.way, "aria-describedby": `way-${each.way}-text` });
    radio.addEventListener("change", () => change("way", each.way, { keep: true }));
    const body = el("div", { class: "body" }, el("p", { class: "help", id: `way-${each.way}-text` }, each.text), made(each.knob).root);
    return { ...each, radio, body, title: el("span", {}, each.title) };
  });
  const root = el("fieldset", { class: "ways" }, el("legend", {}, "Which number do you know?"),
    bodies.map(({ way, radio, title, body }) => el("div", { class: "way" }, el("label", { for: `way-${way}` }, radio, " ", title), body)), told, made("delta").root);

  function update(network, leakage, search) {
    const chosen = store.get("way") || "epsilon";
    for (const { way, radio, body } of bodies) {
      radio.checked = way === chosen;
      body.hidden = way !== chosen;
    }
    bodies[0].title.textContent = `I need an accuracy of ${wanted(store.get("accuracy"))}: which ε?`;
    told.textContent = found(chosen, network, leakage, search);
  }

  return { root, controls, update };
}

// .90 and not .9
function wanted(text) {
  const x = Number(text || 0.9);
  return x > 0 && x < 1 ? String(x).padEnd(4, "0").slice(1) : ".90";
}

function found(way, network, leakage, search) {
  if (search?.text) return search.progress ? `${search.text}: ${Math.round(100 * search.progress)} %` : search.text;
  if (!network || !leakage) return "";
  const values = [network.noise_std].flat().map(Number);
  const noise = `σ = ${[...new Set([Math.min(...values), Math.max(...values)])].map((value) => plain(value)).join(" to ")}`;
  const promise = `ε = ${epsilon(leakage.epsilon)} at δ = ${plain(leakage.delta)}`;
  if (way === "noise") return `This gives ${promise}.`;
  if (way === "epsilon") return `This takes ${noise}.`;
  const target = network.settings?.accuracy;
  return `${target ? `${accuracy(target)} needs ` : "That needs "}${promise}; ${noise}.`;
}
