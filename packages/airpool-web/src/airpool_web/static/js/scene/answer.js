// The answer with its probabilities, what it cost in privacy, and how often each answer comes in many trials.

import { el, fill } from "../dom.js";
import { epsilon, plain } from "../words.js";
import { named, onTheAir, share as perCent } from "./words.js";

/** Bars with numbers: rows of {label, share, mark}. */
function bars(rows, title) {
  return el("table", { class: "bars" }, el("caption", { class: "hidden" }, title),
    el("tbody", {}, rows.map(({ label, share, mark, more }) => {
      const bar = el("span", { class: "bar-fill" });
      bar.style.width = `${Math.max(0.4, 100 * share)}%`;
      return el("tr", { "data-mark": mark },
        el("th", { scope: "row", title: named(label) }, named(label)),
        el("td", { class: "bar-cell" }, el("span", { class: "bar-back", "aria-hidden": "true" }, bar)),
        el("td", { class: "number" }, more ? `${perCent(share)} (${more})` : perCent(share)));
    })));
}

function verdict(result) {
  if (result.label === null) return el("p", { class: "verdict", "data-kind": "none" }, `– ${result.no_answer}`);
  if (result.right === null) return el("p", { class: "verdict", "data-kind": "none" }, "– The true class of this object is not known.");
  return result.right
    ? el("p", { class: "verdict", "data-kind": "good" }, "✓ Right.")
    : el("p", { class: "verdict", "data-kind": "bad" }, `✗ Wrong: it is ${named(result.truth)}.`);
}

export function makeAnswer() {
  const place = el("div", { class: "answer-place" });
  const root = el("section", { class: "card answer", "aria-labelledby": "answer-title" },
    el("h2", { id: "answer-title" }, "The answer"), place);
  return {
    root,
    clear(text = "Press Infer: every device sends its noisy feature, and the server names the object from their sum.") {
      fill(place, el("p", { class: "soft empty" }, text));
      delete root.dataset.old;
    },
    old(is) {
      root.dataset.old = String(is);
    },
    show(result) {
      delete root.dataset.old;
      const slots = result.slots.most > 1 && el("p", { class: "soft" },
        `${result.slots.used} of at most ${result.slots.most} slots used; the server is ${result.slots.sure ? "sure" : "not sure"}. The first slot is shown.`);
      fill(place,
        el("p", { class: "label" }, named(result.label)),
        verdict(result),
        result.label !== null && bars(result.top.map((each) =>
          ({ label: each.label, share: each.probability, mark: each.label === result.label ? "answer" : "other" })),
        "Probabilities of the likeliest classes"),
        el("p", {}, el("b", {}, `ε ≤ ${epsilon(result.epsilon)}`), ` at δ = ${plain(result.delta)} for every device. `,
          result.guess),
        el("p", { class: "soft" }, `${onTheAir(result.devices)}. Seed ${result.seed}.`),
        slots,
        result.python && program(result.python));
    },
  };
}

/** The same inference as a program, to copy. */
function program(text) {
  const copy = el("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Select the text and copy it";
    }
  } }, "Copy");
  return el("details", { class: "program" }, el("summary", {}, "The same in Python"), copy,
    el("pre", { tabindex: "0", role: "region", "aria-label": "Program" }, el("code", {}, text)));
}

export function makePrivacy() {
  const place = el("div");
  const root = el("section", { class: "card privacy", "aria-labelledby": "privacy-title" },
    el("h2", { id: "privacy-title" }, "What it tells about one device"), place);
  return {
    root,
    clear() {
      fill(place, el("p", { class: "soft empty" }, "ε and the odds of this report stand here after an inference."));
    },
    show(result) {
      const over = result.inferences > 1 ? `, over ${result.inferences.toLocaleString("en")} inferences` : "";
      fill(place,
        el("p", { class: "promise" }, el("b", {}, `ε ≤ ${epsilon(result.epsilon)}`), ` at δ = ${plain(result.delta)}${over}`),
        el("p", { class: "soft" }, "ε bounds how much the sum can tell about what one device alone sees: the smaller, the more private. It holds before anything is drawn, whoever was silent just now."),
        el("ul", { class: "odds" }, result.odds.map((text) => el("li", {}, text))));
    },
  };
}

export function makeTrials() {
  const place = el("div");
  const root = el("section", { class: "card trials", "aria-labelledby": "trials-title" },
    el("h2", { id: "trials-title" }, "Again and again"), place);
  return {
    root,
    clear(text = "Noise and channels are new in every inference, and so may be the answer. 200 trials show how often.") {
      fill(place, el("p", { class: "soft empty" }, text));
      delete root.dataset.old;
    },
    old() {
      root.dataset.old = "true";
    },
    show(found) {
      delete root.dataset.old;
      const shown = found.frequency.slice(0, 6);
      const rest = found.frequency.slice(6);
      const others = rest.reduce((sum, each) => sum + each.count, 0);
      const rows = shown.map(({ label, share, count }) =>
        ({ label, share, more: count, mark: label !== null && label === found.truth ? "answer" : "other" }));
      if (others) rows.push({ label: `${rest.length} others`, share: others / found.trials, more: others, mark: "other" });
      const truth = found.truth === null ? "The true class is not known." : `Its true class: ${named(found.truth)}.`;
      const slots = found.slots.most > 1 ? ` ${found.slots.mean.toFixed(1)} of at most ${found.slots.most} slots on average.` : "";
      fill(place, bars(rows, `Answers in ${found.trials} trials`),
        el("p", { class: "soft" }, `Answers of ${found.trials} independent inferences of this object. ${truth}${slots}`));
    },
  };
}
