// The line at the top: is it connected, how many devices take part, how many inferences, what one costs, the ledgers.

import { clock, rounded, small } from "./model.js";

const STATES = {
  "no server": ["○", "No server", "open"],
  connecting: ["◌", "Connecting", "fair"],
  connected: ["●", "Connected", "good"],
  lost: ["✕", "Connection lost", "bad"],
};

export class Overview {
  constructor({ dom }) {
    this.dom = dom;
    this.state = dom.el("p", { class: "live-state", id: "live-state" });
    this.facts = dom.el("dl", { class: "live-facts" });
    this.root = dom.el("section", { class: "live-overview", "aria-label": "Connection and totals" }, this.state, this.facts);
  }

  draw(model) {
    const { dom } = this;
    const { state, reason, since } = model.connection;
    const [icon, words, kind] = STATES[state] ?? STATES.lost;
    this.state.dataset.kind = kind;
    this.state.dataset.state = state;
    const where = model.address && !reason ? ` to ${model.address}` : "";
    const why = reason && state !== "no server" ? `: ${reason}. It tries again by itself.` : "";
    const stale = state === "lost" && model.system && since ? ` What is shown is as of ${clock(since)}.` : "";
    dom.fill(this.state, dom.el("span", { class: "live-icon", "aria-hidden": "true" }, icon), ` ${words}${where}${why}${stale}`);
    dom.fill(this.facts, this.rows(model).map(([name, value, note]) => this.fact(name, value, note)));
  }

  fact(name, value, note) {
    const { dom } = this;
    return dom.el("div", {}, dom.el("dt", {}, name), dom.el("dd", {}, value, dom.el("small", {}, note)));
  }

  rows(model) {
    const system = model.system;
    if (!system) return [];
    const devices = model.devices;
    const up = devices.filter((each) => each.state === "up").length;
    const { air, totals, counts, guarantee } = system;
    const lastMinute = system.seconds.filter((each) => each.time > Date.now() / 1e3 - 61);
    const passed = Math.min(60, Math.max(1, Date.now() / 1e3 - system.since));
    const perSecond = lastMinute.reduce((sum, each) => sum + each.all, 0) / passed;
    const without = (totals.inferences ?? 0) - (counts.answered ?? 0);
    const slots = system.cap > 1 ? `all ${system.cap} slots, ` : "";
    return [
      ["Devices ready", `${up} of ${devices.length}`, air.reached ? `${air.quorum} are needed` : `the air: ${air.reason}`],
      ["Inferences", String(totals.inferences ?? 0), without ? `${without} without an answer` : "all answered"],
      ["In the last minute", `${perSecond.toFixed(perSecond < 10 ? 1 : 0)} a second`, `since ${clock(system.since)}`],
      [
        "ε of one inference",
        rounded(guarantee.device, 2, true),
        system.simulated ? "seeded noise protects nobody" : `${slots}at δ = ${small(guarantee.delta)}, ${guarantee.neighbours}`,
      ],
      ["Ledgers", ...ledgers(devices, air)],
    ];
  }
}

/** State of the devices' ledgers, and a note: in words. */
function ledgers(devices, air) {
  const kept = devices.filter((each) => typeof each.balance?.spent === "number" || each.balance?.spent === "inf");
  const failing = devices.filter((each) => each.balance?.waits === "disk").length;
  const fleet = air.fleet ? `; the fleet's view: ${air.fleet}` : "";
  if (!kept.length) return ["none", `devices keep none, or have not said${fleet}`];
  const left = kept.filter((each) => each.balance.budget !== null).map((each) => each.balance.budget - each.balance.spent);
  const least = left.length ? `least left: ε ${rounded(Math.max(0, Math.min(...left)), 2, false)}` : "no budget for all inferences";
  return [`${kept.length} of ${devices.length}`, (failing ? `${failing} cannot be written` : least) + fleet];
}
