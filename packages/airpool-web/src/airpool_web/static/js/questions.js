// Three questions that everybody asks, answered with the numbers of this very network.

import { el, fill } from "./dom.js";
import { epsilon, number, percent, plain } from "./words.js";

/** Mounts the section into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export function mount(root, { answers }) {
  const made = QUESTIONS.map(({ title, told }) => ({ told, body: el("div", {}, el("p", { class: "loading" }, "Computing …")), title }));
  fill(root, el("h2", {}, "Three questions"),
    el("div", { class: "three" }, made.map(({ title, body }) => el("article", { class: "card" }, el("h3", {}, title), body))));
  const update = () => {
    const { network, leakage } = answers.parts;
    if (!network || !leakage || answers.pending.has("leakage")) return;
    for (const { told, body } of made) {
      const texts = told(network.settings ?? {}, leakage).filter(Boolean);
      if (body.children.length !== texts.length || body.querySelector(".loading")) fill(body, texts.map(() => el("p")));
      texts.forEach((text, index) => {
        if (body.children[index].textContent !== text) body.children[index].textContent = text;
      });
    }
  };
  answers.on("leakage", update);
  answers.onState(({ error, parts }) => {
    for (const { body } of made) {
      const waiting = body.querySelector(".loading");
      if (waiting) waiting.textContent = error && !parts.leakage ? "The answer needs settings that work." : "Computing …";
    }
  });
}

const first = (value) => number([value].flat()[0] ?? NaN);
const most = (value, pick = Math.max) => pick(...String([value].flat()).split(",").map(Number));
const yes = (value) => value === true || value === "true";

const MOST = 700; // ε whose e^ε is still a number

const ALONE = {
  superposed: "A receiver beside one device hears that device alone: then its",
  orthogonal: "Whoever listens receives the same as the server: the",
  secure: "Where all other devices work with the server, nothing but own noise is left: then the",
};

const QUESTIONS = [
  {
    title: "What is ε here?",
    told(settings, leakage) {
      const many = number(settings.inferences) > 1 ? ` after ${plain(settings.inferences)} inferences` : "";
      const odds = leakage.odds?.even;
      const promise = number(leakage.epsilon);
      const factor = promise < MOST ? `e^ε = ${epsilon(Math.exp(promise))}` : "e^ε";
      return [
        `ε limits what anybody can learn from the received signal about what one device alone has seen. Here it is ${epsilon(leakage.epsilon)} for the worst device${many}, at δ = ${plain(leakage.delta)}. Smaller is more private; 0 would tell nothing.`,
        odds && `In odds: a yes-or-no question about that view, which a coin answers right half of the time, is answered right at most ${percent(odds.device)} of the time.`,
        Number.isFinite(promise)
          ? `As a rule: no event gets more than ${factor} times as likely by what the device saw, but for a probability of δ. It is computed and proven, not measured.`
          : "Here it is infinite: at this setting nothing is promised.",
      ];
    },
  },
  {
    title: "What does the server see?",
    told(settings, leakage) {
      const scores = String(settings.scheme) === "2.2" ? " It also receives a noisy score of each device, by which it chooses who transmits." : "";
      const hidden = yes(settings.cover_noise) || settings.access === "secure";
      const who = !hidden ? " It sees who transmitted and who was silent."
        : scores ? " It knows who takes part, although who sits out sends its noise."
          : " It cannot tell who took part: who sits out sends its noise.";
      const seen = {
        orthogonal: "Each device's own noisy vector, one after the other. Only that device's noise protects it, so that the local ε counts.",
        secure: "Only the sum of the devices' noisy vectors: masks that cancel in the sum hide every single one.",
      }[settings.access] ?? "One vector: the sum of what all devices send at the same moment, with their noise. The radio channel adds the signals up before anybody receives them.";
      return [
        `${seen}${who}${scores}`,
        "It never receives a picture or a recording. It decodes the sum into a label, which it is meant to learn: what the object is, is not a secret here.",
        `${ALONE[settings.access] ?? ALONE.superposed} local ε counts, ${epsilon(leakage.epsilon_local)}. All views together, and so the object, have ε = ${epsilon(leakage.epsilon_object)}.`,
      ];
    },
  },
  {
    title: "Why is this device silent?",
    told(settings) {
      const scheme = String(settings.scheme ?? "1");
      const reasons = [];
      const least = most(settings.participation ?? 1, Math.min);
      if (scheme.startsWith("1") && least < 1) reasons.push(`its coin: it transmits with probability p = ${plain(least)}, and sits out otherwise`);
      if (scheme === "2.1") reasons.push(`its score: it is too unsure of what it sees (noisy score above ${plain(settings.threshold)})`);
      if (scheme === "2.2") reasons.push(`its rank: only the ${plain(settings.num_selected)} devices that are surest transmit`);
      const radio = !["secure"].includes(settings.access);
      if (radio && settings.fading && settings.fading !== "none" && (settings.power_rule ?? "truncate") === "truncate") {
        reasons.push(`its channel: it is too weak at this moment for the power that it has${settings.gamma === "auto" ? ` (at most ${percent(first(settings.outage))} of the time)` : ""}`);
      }
      if (number(settings.dropouts) > 0) reasons.push(`it has dropped out: ${plain(settings.dropouts)} may`);
      const running = `In a running system there are two ${reasons.length ? "more" : "reasons"}: it is down, or its privacy budget is spent. A device that has nothing left to spend stays silent.`;
      const covered = yes(settings.cover_noise);
      const cover = covered ? "It sends noise all the same (cover noise), so that nobody can tell." : null;
      if (!reasons.length) return ["At this setting no device stays silent: all transmit in every inference.", running];
      return [`Not because of an error. At this setting a device ${covered ? "sends no feature" : "is silent"} for ${reasons.length === 1 ? "one reason" : "these reasons"}: ${reasons.join("; ")}.`, cover, running];
    },
  },
];
