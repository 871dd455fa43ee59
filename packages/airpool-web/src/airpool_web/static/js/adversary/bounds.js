// The bound of every position: the largest share of right guesses, whatever the attack.

import { percent } from "../words.js";
import { settled } from "../runner.js";

const NAMES = {
  sum: "the server: the sum of all devices",
  link: "somebody at one device: its own signal alone",
  colluding: "all other devices together: the sum, less what they have sent",
  antennas: "an eavesdropper: antennas elsewhere",
  repeated: "the server, after all inferences of the same view",
};

export function mountBounds(root, { dom, store, api }) {
  const { el, fill } = dom;
  const body = el("tbody", {});
  const status = el("p", { class: "soft told", role: "status" }, "Computing …");
  const table = el("table", { class: "bounds" },
    el("caption", { class: "hidden" }, "The largest share of right guesses, by who listens"),
    el("thead", {},
      el("tr", {}, el("td", {}), el("th", { colspan: 2, scope: "colgroup" }, "a secret that one view alone shows"),
        el("th", { colspan: 2, scope: "colgroup" }, "what several views show, such as the class")),
      el("tr", {}, el("th", { scope: "col" }, "who listens"),
        ["yes or no", "one of 40", "yes or no", "one of 40"].map((text) => el("th", { scope: "col", class: "number" }, text))),
      el("tr", { class: "without" }, el("th", { scope: "row" }, "nobody: the best guess without any signal"),
        ["50 %", "2.5 %", "50 %", "2.5 %"].map((text) => el("td", { class: "number" }, text)))),
    body);
  fill(root,
    el("h2", { id: "bounds-title" }, "The bound: how often a guess can be right at most"),
    el("p", {}, "Proven, for any attack and any computer. The device that is protected least counts. What several views show is the " +
      "object’s, and not protected: naming it is the purpose of the system."),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of bounds" }, table), status);

  let asked = null;
  let shown = "";
  let visible = false;

  async function ask() {
    const settings = store.settings;
    const key = JSON.stringify(settings);
    if (!visible || key === shown) return;
    asked?.abort();
    const own = (asked = new AbortController());
    table.classList.add("stale");
    status.textContent = "Computing …";
    status.className = "soft told";
    try {
      await api.stream("/api/bounds", settings, (part) => {
        if (part.part === "waiting") status.textContent = "Another computation is running; this one is next.";
        else fill(body, part.rows.map(row));
      }, own.signal);
      table.classList.remove("stale");
      status.textContent = "";
      shown = key;
    } catch (error) {
      if (error.name === "AbortError") return;
      status.className = "failed told";
      status.textContent = error.message;
    }
  }

  function row({ position, view, object, claimed }) {
    const cells = view.map((value) => el("td", { class: "number" }, percent(value)));
    const others = claimed ? object.map((value) => el("td", { class: "number" }, percent(value)))
      : [el("td", { colspan: 2, class: "soft" }, "nothing is claimed")];
    return el("tr", {}, el("th", { scope: "row" }, NAMES[position] ?? position), cells, others);
  }

  store.subscribe(settled(ask));
  return {
    show() {
      visible = true;
      ask();
    },
    hide() {
      visible = false;
    },
  };
}
