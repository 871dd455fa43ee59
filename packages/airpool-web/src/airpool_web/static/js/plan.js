// The planner: the most accurate design for the devices and the channel in the address, and its frontier over ε.

import { runner, widened } from "./runner.js";
import { accuracy, epsilon, plain } from "./words.js";
import { chart } from "./plan/chart.js";
import { designs } from "./plan/designs.js";

// What a plan decides; all else is given: devices, power, channel, δ, neighbours.
const DECIDED = new Set(["way", "epsilon", "accuracy", "noise_std", "weight", "clip_norm", "participation", "cover_noise", "codec", "share", "scheme",
  "score", "score_rule", "score_bound", "score_noise_std", "threshold", "num_selected"]);

const TARGET = ["way", "epsilon", "accuracy", "noise_std"];

const target = (settings) => JSON.stringify(TARGET.map((name) => settings[name] ?? ""));
const given = (settings) => JSON.stringify(Object.entries(settings).filter(([name]) => !DECIDED.has(name)).sort());

/** Mounts the view into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export function mount(root, { dom, store, api, answers }) {
  const { el, fill } = dom;
  let plan = null;
  let points = [];
  let of = "";
  let aim = "";
  const open = new Set(["ours", "paper"]);
  const stale = el("p", { class: "soft", hidden: true }, "The target, the devices or the channel have changed since: this is the plan for what was set before.");
  const goal = el("p", {});
  const best = el("div", { class: "card", hidden: true });
  const place = el("div", { class: "chart" });
  const told = el("p", { class: "soft told", role: "status" });
  const tables = el("div", {});
  const run = runner({ label: "Find the best design", again: "Plan again", run: search });

  fill(root,
    el("h2", {}, "Plan"),
    goal, run.root, stale, best,
    el("h3", { id: "frontier-title" }, "The frontier: accuracy over ε"),
    el("p", { class: "soft", id: "frontier-help" }, "Every mark is a design. Click it, or press Enter on it, to load it into the settings; Undo brings back what was there."),
    place, told, tables);

  function asked() {
    const settings = answers.parts.network?.settings ?? {};
    const way = store.get("way") || "epsilon";
    const wanted = way === "accuracy" ? `the smallest ε that reaches an accuracy of ${store.get("accuracy") || ".90"}`
      : way === "noise" ? "the ε that the noise in the settings gives" : `ε = ${store.get("epsilon") || "2"}`;
    const count = settings.devices ?? store.get("devices") ?? "";
    fill(goal, "Of all codecs, rates of participation, schemes and kinds of noise: which network is the most accurate for ",
      el("strong", {}, wanted), count ? ` and these ${count} devices` : "", ", on this channel? Accuracy is predicted on the validation objects; the test objects are not looked at.");
  }

  async function search(tell, signal) {
    plan = null;
    points = [];
    of = given(store.settings);
    aim = target(store.settings);
    draw();
    await api.stream("/api/plan", store.settings, (part) => {
      if (part.part === "waiting") tell({ text: "Another computation is running; this one is next.", total: 0 });
      else if (part.part === "progress") tell(part);
      else if (part.part === "plan") plan = part;
      else if (part.part === "point") points.push(part);
      if (part.part === "plan" || part.part === "point") draw();
    }, signal);
    return `${points.length} designs on the frontier.`;
  }

  function load(design) {
    store.replace(design.settings);
    told.textContent = `Loaded: ${design.words}, ε = ${epsilon(design.epsilon)}, σ = ${plain(design.settings.noise_std.split(",")[0], 4)}. The settings and all views now show it.`;
  }

  function changed() {
    const now = given(store.settings);
    const known = [plan?.best, ...(plan?.others ?? []), ...points].filter(Boolean);
    const fits = now === of || known.some((design) => given(design.settings) === now);
    stale.hidden = !plan || (fits && (target(store.settings) === aim || known.some(same)));
  }

  const same = (design) => JSON.stringify(Object.entries(design.settings).sort()) === JSON.stringify(Object.entries(store.settings).sort());

  function draw() {
    const focused = document.activeElement?.dataset?.design;
    const width = Math.max(280, Math.min(place.clientWidth || 640, 760));
    fill(place, chart({ plan, points, width, load, same }));
    best.hidden = !plan;
    if (plan) fill(best, summary(plan.best));
    fill(tables, plan ? designs({ el, plan, points, load, same, open }) : null);
    if (focused) root.querySelector(`[data-design="${focused}"]`)?.focus();
  }

  function summary(design) {
    const cost = design.bytes ? `${plain(design.bytes[0])} bytes sent and ${plain(design.bytes[1])} received by each device`
      : `${plain(design.channel_uses)} channel uses and ${plain(design.energy)} mW·uses`;
    return [
      el("p", {}, el("strong", {}, "Take: "), design.words, ". ", el("button", { type: "button", "data-design": "best", onclick: () => load(design) }, "Load this design")),
      el("p", {}, `Accuracy ${accuracy(design.accuracy)}, ${accuracy(design.low)} to ${accuracy(design.high)} on as many other objects (95 %, ${plain(design.objects)} validation objects, ${design.trials} runs). `,
        `ε = ${epsilon(design.epsilon)} at δ = ${plain(plan.delta, 3)}, local ${epsilon(design.epsilon_local)}, object ${epsilon(design.epsilon_object)}. ${cost} an inference.`),
      plan.cameras ? el("p", { class: "soft" }, plan.cameras) : null,
    ];
  }

  store.subscribe(() => {
    asked();
    changed();
    if (plan) draw();
  });
  answers.on("network", asked);
  asked();
  draw();
  widened(root, draw);
  return { show: draw };
}
