// "Try to attack": the audit, played live. Its lower bound on ε rises look by look, toward the claim or beyond it.

import { epsilon, number, plain } from "../words.js";
import { runner, widened } from "../runner.js";
import { chart } from "./chart.js";

const CLAIMS = [
  ["sum", "the ε of a device in the sum", "The attacker is the server: it gets the sum."],
  ["link", "its local ε", "The attacker also knows what all other devices have sent."],
  ["antennas", "the ε against the eavesdropper", "The attacker has antennas elsewhere."],
  ["paper", "the paper’s claim, on the paper’s network", "Theorem 1 claims that the removal of a device is hidden. It is not."],
];

/** A lower bound as text, rounded down: never above it. */
const below = (value) => (Math.floor(number(value) * 1000 + 1e-9) / 1000).toFixed(3);

export function mountGame(root, { dom, store, api, answers }) {
  const { el, fill } = dom;
  let claim = null;
  let looks = [];
  let of = "";
  const inputs = CLAIMS.map(([value], index) => el("input", { type: "radio", name: "against", value, id: `against-${value}`, checked: index === 0, "aria-describedby": `about-${value}` }));
  const place = el("div", { class: "chart" });
  const verdict = el("p", { class: "verdict", role: "status" });
  const notes = el("ul", { class: "soft notes" });
  const rows = el("tbody", {});
  const details = el("details", { hidden: true }, el("summary", {}, "Every look in numbers"), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of looks" },
    el("table", {}, el("thead", {}, el("tr", {}, ["look", "runs a side", "false alarms", "misses", "of", "shows ε at least", "could show at most", "seed"]
      .map((text) => el("th", { scope: "col", class: "number" }, text)))), rows)));
  const stale = el("p", { class: "soft", hidden: true }, "The settings have changed since: this was the attack on what was set before.");
  const run = runner({ label: "Try to attack", again: "Attack again", run: attack });

  fill(root,
    el("h2", { id: "game-title" }, "Try to attack"),
    el("p", {}, "A game, played with the code that transmits: two worlds that differ in one device’s feature, as far apart as clipping allows. The attacker sees the " +
      "signal and says which world it was. The fewer its mistakes, the larger ε must be. The result is a lower bound on ε."),
    el("fieldset", { class: "claims" }, el("legend", {}, "the claim to attack"),
      CLAIMS.map(([value, title, text], index) => el("label", { for: `against-${value}` }, inputs[index], el("span", {}, title, el("small", { id: `about-${value}` }, text))))),
    run.root, verdict, place, stale, notes,
    el("p", { class: "soft" }, el("strong", {}, "How to read it. "), "“Not refuted” is what one expects of a true claim: the lower bound lies below it, and rises as more runs are played. It is no proof; the ",
      "claim itself is proven. “Refuted” means that the claim is false, or that chance has made one of twenty such attacks look so."),
    details);
  draw();

  function chosen() {
    return inputs.find((each) => each.checked).value;
  }

  async function attack(tell, signal) {
    const settings = { ...store.settings };
    of = JSON.stringify(settings);
    const content = { ...settings, against: chosen(), seed: store.get("seed") || "0" };
    claim = null;
    looks = [];
    verdict.textContent = "";
    verdict.dataset.kind = "open";
    let done = null;
    draw();
    changed();
    try {
      await api.stream("/api/audit", content, (part) => {
        if (part.part === "waiting") tell({ text: "Another computation is running; this one is next.", total: 0 });
        else if (part.part === "claim") {
          claim = part;
          tell({ text: `Playing ${part.runs.length} looks …`, total: 0 });
        } else if (part.part === "progress") tell(part);
        else if (part.part === "look") {
          looks.push(part);
          tell({ text: `Look ${part.number} of ${claim.runs.length}: ${plain(part.runs)} runs a side.` });
        } else if (part.part === "done") done = part;
        if (part.part !== "progress") draw();
        if (part.part === "look") changed();
      }, signal);
    } finally {
      if (claim && looks.length) say(done);
    }
    return `${looks.length} of ${claim.runs.length} looks, ${plain(done.played)} runs in all.`;
  }

  function say(done) {
    const best = below(looks.at(-1).best);
    const paper = claim.target === "paper";
    const claimed = paper ? `Theorem 1 claims ε = ${plain(claim.paper, 3)}` : `the claim is ε = ${epsilon(claim.epsilon)}`;
    const sure = `with ${Math.round(claim.confidence * 100)} % confidence, at δ = ${plain(claim.delta, 3)}`;
    if (looks.at(-1).refuted) {
      verdict.dataset.kind = "bad";
      verdict.textContent = paper
        ? `Refuted. The attack shows ε ≥ ${best}, ${sure}; ${claimed}. The exact ε is ${epsilon(claim.epsilon)}.`
        : `Refuted: ε ≥ ${best}, ${sure}; ${claimed}. Chance does this to a true claim in at most one of twenty attacks: change the seed and attack again. If it happens again, airpool has a fault; please report it.`;
    } else {
      verdict.dataset.kind = "open";
      verdict.textContent = `Not refuted${done ? "" : " so far"}: the attack shows ε ≥ ${best}, ${sure}; ${claimed}.`;
    }
  }

  function draw() {
    const width = Math.max(280, Math.min(place.clientWidth || 640, 760));
    fill(place, chart({ claim, looks, width }));
    details.hidden = !looks.length;
    fill(rows, looks.map((each) => el("tr", {}, [each.number, plain(each.runs), plain(each.false_alarms), plain(each.misses), plain(each.evaluated), below(each.lower), below(each.ceiling), each.seed]
      .map((text) => el("td", { class: "number" }, String(text))))));
    if (!claim) {
      fill(notes);
      return;
    }
    const share = (100 * (1 - claim.confidence)) / claim.runs.length;
    fill(notes, claim.notes.map((text) => el("li", {}, text)),
      el("li", {}, `${claim.target === "paper" ? "Two worlds: with device 0, and without it." : `Device ${claim.device}, ${claim.neighbours} neighbours.`} Seed ${claim.seed}.`),
      el("li", {}, `Looking again and again costs: each of the ${claim.runs.length} looks has runs of its own and ${plain(share, 2)} % of the error of ${plain(100 * (1 - claim.confidence), 2)} %. ` +
        "So the best bound so far holds whenever you stop. Another press of the button is another attack, with an error of its own."));
  }

  function changed() {
    stale.hidden = !looks.length || claim?.target === "paper" || JSON.stringify(store.settings) === of;
  }

  function antennas() {
    const some = Number(answers.parts.network?.settings?.antennas ?? store.get("antennas")) > 0;
    inputs[2].disabled = !some;
    inputs[2].parentElement.classList.toggle("greyed", !some);
    document.getElementById("about-antennas").textContent = some ? CLAIMS[2][2] : "Nobody listens with antennas elsewhere: set the eavesdropper’s antennas first.";
    if (!some && inputs[2].checked) inputs[0].checked = true;
  }

  store.subscribe(changed);
  answers.on("network", antennas);
  antennas();
  widened(root, draw);
  return { show: draw };
}
