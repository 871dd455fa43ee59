// A card for each device: whether it takes part, if not why, and what is left of its budget.

import { clock, plain, rounded, small, word } from "./model.js";

const ICONS = { up: "●", waiting: "◐", aside: "⊘", down: "✕", unknown: "?" };
const WHY = [
  ["down", "It is not connected. Its process or its link is gone, or its network file differs from the air's."],
  ["not ready: its budget", "One more inference would exceed what its own ledger allows. Only its owner can allow more."],
  ["not ready: its ledger", "Its ledger cannot be written or read. It sends nothing that it cannot charge."],
  ["not ready", "It has not answered for a while; the others no longer wait for it."],
  ["set aside", "It left slots twice, which costs the others. It is asked again after the time shown."],
  ["noise alone", "Its camera fails. It sends noise so that nobody can tell; only its own machine knows, so only a page beside it says so."],
];

export class Devices {
  constructor({ dom }) {
    this.dom = dom;
    this.cards = new Map();
    this.grid = dom.el("ul", { class: "live-grid" });
    this.loading = dom.el("p", { class: "loading" }, "Waiting for the first word of the server …");
    this.root = dom.el(
      "section",
      { "aria-label": "Devices" },
      dom.el("h3", {}, "Devices"),
      this.loading,
      this.grid,
      dom.el(
        "details",
        { class: "live-why" },
        dom.el("summary", {}, "Why is a device silent?"),
        dom.el(
          "p",
          {},
          "A device that is up may still be silent in a slot: by its own coin, a weak channel or its score. Nobody is told, ",
          "neither the server nor this page: that is part of what protects it. What can be seen is whether it takes part:",
        ),
        dom.el("dl", {}, WHY.map(([name, text]) => [dom.el("dt", {}, name), dom.el("dd", {}, text)])),
      ),
    );
  }

  draw(model) {
    const devices = model.devices;
    this.loading.hidden = devices.length > 0;
    for (const [k, card] of this.cards) {
      if (!devices.some((each) => each.device === k)) {
        card.root.remove();
        this.cards.delete(k);
      }
    }
    for (const each of devices) {
      if (!this.cards.has(each.device)) {
        this.cards.set(each.device, this.card(each.device));
        this.grid.append(this.cards.get(each.device).root);
      }
      const stale = model.connection.state !== "connected";
      this.fill(this.cards.get(each.device), each, model.local[each.device] ?? "", stale);
    }
  }

  card(k) {
    const { dom } = this;
    const state = dom.el("p", { class: "live-word" });
    const reason = dom.el("p", { class: "live-reason" });
    const level = dom.el("span", {});
    const meter = dom.el("div", { class: "live-bar", role: "meter", "aria-label": `Budget left of device ${k}`, "aria-valuemin": 0 }, level);
    const words = dom.el("p", { class: "live-budget" });
    const root = dom.el("li", { class: "live-device", "data-device": k }, dom.el("div", { class: "live-head" }, dom.el("h4", {}, `Device ${k}`), state), reason, meter, words);
    return { root, state, reason, level, meter, words };
  }

  fill(card, device, local, stale) {
    const { dom } = this;
    const shown = device.state === "up" && local ? "noise alone" : word(device.state);
    card.root.dataset.state = device.state === "up" && local ? "local" : device.state;
    card.root.classList.toggle("live-stale", stale);
    const icon = local && device.state === "up" ? "◍" : (ICONS[device.state] ?? "?");
    dom.fill(card.state, dom.el("span", { "aria-hidden": "true" }, `${icon} `), stale ? `was ${shown}` : shown);
    card.reason.textContent = reasons(device, local);
    this.budget(card, device.balance);
  }

  budget(card, balance) {
    const spent = balance?.spent ?? null;
    const budget = balance?.budget ?? null;
    const known = typeof spent === "number" && typeof budget === "number" && budget > 0;
    const left = known ? Math.max(0, budget - spent) : 0;
    card.meter.dataset.known = String(known);
    card.level.style.width = known ? `${(100 * left) / budget}%` : "0";
    card.meter.dataset.low = String(known && left < budget / 10);
    if (known) {
      card.words.textContent = `ε ${rounded(left, 2, false)} of ${Number(budget.toFixed(4))} left, δ = ${small(balance.delta)}`;
      card.meter.setAttribute("aria-valuemax", String(budget));
      card.meter.setAttribute("aria-valuenow", String(left));
    } else {
      card.words.textContent = spent === null ? (balance ? "keeps no ledger" : "budget not told") : `ε ${rounded(spent, 2, true)} spent, δ = ${small(balance.delta)}; no limit for all`;
      card.meter.setAttribute("aria-valuemax", "1");
      card.meter.setAttribute("aria-valuenow", "0");
    }
    card.meter.setAttribute("aria-valuetext", card.words.textContent);
  }
}

/** The reason why a device does not take part, as one sentence; "" where it does. */
function reasons(device, local) {
  const said = plain(device.reason);
  const until = device.until ? ` Asked again at ${clock(device.until)}.` : "";
  return [said && `${said}.${until}`, local && `${plain(local)}.`].filter(Boolean).join(" ");
}
