// What each device sees and does: a grid of pictures, each a button that shows more of its device.

import { el, fill } from "../dom.js";
import { epsilon } from "../words.js";
import { SIGNS, STATES } from "./words.js";

/** @param {(k: number | null) => void} highlight Called with the device that is looked at. */
export function makeThumbnails(highlight) {
  const grid = el("ul", { class: "views-grid" });
  const detail = el("p", { class: "views-detail", "aria-live": "polite" });
  const reasons = el("ul", { class: "views-reasons" });
  const note = el("p", { class: "soft views-note" });
  const root = el("section", { class: "views", "aria-labelledby": "views-title" },
    el("h2", { id: "views-title" }, "What each device sees"), note, grid,
    el("div", { class: "views-why", tabindex: "0", role: "region", "aria-label": "What devices do, and why" }, detail, reasons));
  let shown = { views: [], count: 0, devices: null, chosen: null };

  function state(k) {
    return shown.devices?.[k]?.state ?? "idle";
  }

  function choose(k) {
    shown.chosen = shown.chosen === k ? null : k;
    dress();
    highlight(shown.chosen);
  }

  function build() {
    const places = Array.from({ length: shown.count }, (_, k) => {
      const picture = shown.views[k]
        ? el("img", { src: shown.views[k], alt: "", width: 112, height: 112, draggable: "false" })
        : el("span", { class: "no-picture", "aria-hidden": "true" }, "∿");
      const button = el("button", { type: "button", class: "view", onclick: () => choose(k) },
        picture, el("span", { class: "view-line" }, el("b", {}, String(k)), el("span", { class: "view-state" })));
      button.addEventListener("pointerenter", () => highlight(k));
      button.addEventListener("focus", () => highlight(k));
      for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => highlight(shown.chosen));
      return el("li", {}, button);
    });
    grid.dataset.many = String(shown.count > 24);
    fill(grid, places);
    dress();
  }

  function dress() {
    [...grid.querySelectorAll("button")].forEach((button, k) => {
      const device = shown.devices?.[k];
      button.dataset.state = state(k);
      button.setAttribute("aria-pressed", String(shown.chosen === k));
      button.querySelector(".view-state").textContent = `${SIGNS[state(k)]} ${STATES[state(k)]}`;
      const reason = device && device.state !== "sends" ? ` ${device.reason}` : "";
      button.setAttribute("aria-label", `Device ${k}: ${STATES[state(k)]}.${reason}`);
      button.title = device?.reason ?? "";
    });
    fill(detail, explained());
    const quiet = (shown.devices ?? []).filter((each) => each.state !== "sends");
    fill(reasons, quiet.slice(0, 12).map((each) =>
      el("li", {}, el("b", {}, `Device ${each.device}, ${STATES[each.state]}: `), each.reason)),
    quiet.length > 12 && el("li", {}, `… and ${quiet.length - 12} more: choose a device to see why.`));
    reasons.hidden = quiet.length === 0;
  }

  function explained() {
    const k = shown.chosen;
    const device = k === null ? null : shown.devices?.[k];
    if (k === null) return "Choose a device to see what it does, and why.";
    if (!device) return `Device ${k} is ready: press Infer.`;
    const from = `ε ≤ ${epsilon(device.epsilon)} from the sum, ${epsilon(device.epsilon_local)} from its own signal`;
    return [el("b", {}, `Device ${k}: ${STATES[device.state]}. `), `${device.reason} `,
      el("span", { class: "soft" }, `Channel gain ${device.gain.toFixed(2)}; ${from}.`)];
  }

  return {
    root,
    /** Pictures of `count` devices; fewer or none where there are no pictures. */
    setViews(views, count, text) {
      shown = { views, count, devices: null, chosen: shown.chosen < count ? shown.chosen : null };
      note.textContent = text ?? "";
      note.hidden = !text;
      build();
    },
    setDevices(devices) {
      shown.devices = devices;
      dress();
    },
    waiting(text) {
      fill(detail, text);
    },
  };
}
