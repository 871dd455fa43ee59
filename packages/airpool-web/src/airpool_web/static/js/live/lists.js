// The last inferences as a table, and what has changed, both of a fixed height: nothing jumps.

import { clock, ms, plain, word } from "./model.js";

const ROWS = 12;
const CHANGES = 30;
const ICONS = { answered: "✓", "no answer": "○", "below quorum": "◐", withheld: "⊘", failed: "✕" };
const COLUMNS = [
  ["Time", ""],
  ["No.", "number wide"],
  ["Result", ""],
  ["Label", ""],
  ["Probability", "number wide"],
  ["Latency", "number"],
  ["Slots", "number wide"],
  ["Devices", "number wide"],
  ["Spent", "wide"],
];

export class Inferences {
  constructor({ dom }) {
    this.dom = dom;
    this.rows = Array.from({ length: ROWS }, () => {
      const cells = COLUMNS.map(([, kind]) => dom.el("td", { class: kind }, "\u00a0"));
      return { cells, root: dom.el("tr", {}, cells) };
    });
    this.why = dom.el("p", { class: "live-reason" }, "\u00a0");
    const head = dom.el("tr", {}, COLUMNS.map(([name, kind]) => dom.el("th", { scope: "col", class: kind }, name)));
    const table = dom.el("table", { class: "live-inferences" }, dom.el("thead", {}, head), dom.el("tbody", {}, this.rows.map((row) => row.root)));
    this.root = dom.el(
      "section",
      { "aria-label": "Last inferences" },
      dom.el("h3", {}, "Last inferences"),
      dom.el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of the last inferences" }, table),
      this.why,
    );
  }

  draw(model) {
    const found = [...(model.system?.inferences ?? [])].reverse();
    this.rows.forEach(({ cells, root }, i) => {
      const each = found[i];
      const texts = each ? row(each) : COLUMNS.map(() => "\u00a0");
      cells.forEach((cell, j) => {
        if (cell.textContent !== texts[j]) cell.textContent = texts[j];
      });
      root.dataset.status = each?.status ?? "";
    });
    const last = found.find((each) => each.reason);
    this.why.textContent = last ? `Inference ${last.number}: ${last.reason}.` : "\u00a0";
  }
}

function row(each) {
  const sure = each.status === "answered" ? each.probability.toFixed(2) : "–";
  const result = `${ICONS[each.status] ?? "?"} ${each.status}`;
  const slots = each.cap > 1 ? `${each.slots} of ${each.cap}` : String(each.slots);
  return [clock(each.time), String(each.number), result, each.name ?? "–", sure, ms(each.seconds), slots, String(each.devices), each.spent ? "yes" : "no"];
}

export class Changes {
  constructor({ dom }) {
    this.dom = dom;
    this.list = dom.el("ol", { class: "live-changes", tabindex: 0, "aria-label": "The newest first" });
    this.root = dom.el("section", { "aria-label": "Faults and changes" }, dom.el("h3", {}, "Faults and changes"), this.list);
  }

  draw(model) {
    const { dom } = this;
    const found = [...(model.system?.changes ?? [])].reverse().slice(0, CHANGES);
    const lines = found.map((each) => {
      const why = each.reason ? `. ${plain(each.reason)}.` : ".";
      return dom.el("li", { "data-state": each.state }, dom.el("time", {}, clock(each.time)), ` Device ${each.device} is ${word(each.state)}${why}`);
    });
    dom.fill(this.list, lines.length ? lines : dom.el("li", { class: "soft" }, "No device has changed since this page watches."));
  }
}
