// The course of the last slot: one row for each stretch of its way, as long as it took.

import { clock, ms } from "./model.js";

const STRETCHES = [
  ["asked", "announced", "Waits for its turn", "the server has asked, the air waits until enough devices are ready"],
  ["announced", "charged", "Charged", "the longest charge that a device has told of: it books its budget before it looks"],
  ["announced", "last", "Sent", "devices charge, look, draw noise and send; the air has the last signal"],
  ["last", "summed", "Summed", "the air adds up, and hands over the sum alone"],
  ["summed", "answered", "Answered", "the server decodes the noisy sum"],
];

export class Course {
  constructor({ dom }) {
    this.dom = dom;
    this.rows = STRETCHES.map(([, , name, text]) => {
      const bar = dom.el("span", {});
      const took = dom.el("td", { class: "number" }, "–");
      return { bar, took, root: dom.el("tr", { title: text }, dom.el("th", { scope: "row" }, name), dom.el("td", { class: "live-track" }, bar), took) };
    });
    this.note = dom.el("p", { class: "soft live-note" }, "No slot yet.");
    this.root = dom.el(
      "section",
      { "aria-label": "Course of the last slot" },
      dom.el("h3", {}, "The last slot"),
      dom.el("table", { class: "live-course" }, dom.el("tbody", {}, this.rows.map((row) => row.root))),
      this.note,
      dom.el(
        "p",
        { class: "soft live-note" },
        "Times of the air and of the server, by their own clocks; the charge is told by the devices as a duration, counted ",
        "from the announcement. In a secure sum devices do not tell it.",
      ),
    );
  }

  draw(model) {
    const found = model.system?.course;
    if (!found) return;
    const { marks } = found;
    const whole = marks.answered || 1;
    STRETCHES.forEach(([begin, end], i) => {
      const { bar, took } = this.rows[i];
      const [from, to] = [marks[begin], marks[end]];
      const known = from !== undefined && to !== undefined;
      bar.style.left = known ? `${(100 * from) / whole}%` : "0";
      bar.style.width = known ? `${Math.max(0, (100 * (to - from)) / whole)}%` : "0";
      took.textContent = known ? ms(Math.max(0, to - from)) : "not told";
    });
    const slot = model.system.cap > 1 ? `, slot ${found.slot}` : "";
    this.note.textContent = `Inference ${found.number}${slot}, ${clock(found.time)}: ${ms(whole)} in all.`;
  }
}
