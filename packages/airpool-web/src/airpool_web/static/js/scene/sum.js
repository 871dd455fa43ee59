// The sum that the server receives beside the ideal one, number by number, with the level of the noise.

import { el, fill, svg } from "../dom.js";

const WIDTH = 480;
const HEIGHT = 260;
const EDGE = { left: 40, right: 6, top: 8, bottom: 42 };

function ticks(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 2));
  const wide = [5, 2, 1].map((factor) => factor * step).find((each) => (high - low) / each >= 2) ?? step;
  const found = [];
  for (let at = Math.ceil(low / wide) * wide; at <= high + 1e-12; at += wide) found.push(Number(at.toPrecision(6)));
  return found;
}

/** A chart of r numbers: the ideal sum as steps, noise of one standard deviation around it, what was received as dots. */
function chart({ ideal, received, noise_std: noise }) {
  const r = ideal.length;
  const low = Math.min(...ideal.map((v) => v - noise), ...received);
  const high = Math.max(...ideal.map((v) => v + noise), ...received);
  const room = (high - low || 1) * 0.06;
  const across = (WIDTH - EDGE.left - EDGE.right) / r;
  const x = (i) => EDGE.left + i * across;
  const y = (v) => EDGE.top + ((high + room - v) / (high - low + 2 * room || 1)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const n = (value) => value.toFixed(1);
  const steps = (shift) => ideal.map((v, i) => [`${n(x(i))} ${n(y(v + shift))}`, `${n(x(i + 1))} ${n(y(v + shift))}`]).flat();
  const band = `M${steps(noise).join("L")}L${steps(-noise).reverse().join("L")}Z`;
  const size = Math.max(0.8, Math.min(3.4, across * 0.26));
  const dots = received.map((v, i) => `M${n(x(i + 0.5) - size)} ${n(y(v))}a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0 ${-2 * size} 0`);
  const stems = r > 120 ? "" : received.map((v, i) => `M${n(x(i + 0.5))} ${n(y(ideal[i]))}V${n(y(v))}`).join("");
  const lines = ticks(low - room, high + room).map((v) => [
    svg("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: y(v), y2: y(v), class: v === 0 ? "sum-zero" : "sum-line" }),
    svg("text", { x: EDGE.left - 6, y: y(v) + 4, class: "sum-tick", "text-anchor": "end" }, String(v)),
  ]);
  const places = [0, Math.floor(r / 4), Math.floor(r / 2), Math.floor((3 * r) / 4), r - 1].filter((v, i, all) => all.indexOf(v) === i);
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "sum-chart", "aria-hidden": "true" },
    lines,
    svg("path", { d: band, class: "sum-band" }),
    svg("path", { d: `M${steps(0).join("L")}`, class: "sum-ideal" }),
    svg("path", { d: stems, class: "sum-stem" }),
    svg("path", { d: dots.join(""), class: "sum-received" }),
    places.map((i) => svg("text", { x: x(i + 0.5), y: HEIGHT - 25, class: "sum-tick", "text-anchor": "middle" }, String(i + 1))),
    svg("text", { x: (EDGE.left + WIDTH) / 2, y: HEIGHT - 6, class: "sum-tick", "text-anchor": "middle" }, "number"));
}

function table({ ideal, received }) {
  const row = (v, i) => el("tr", {}, el("th", { scope: "row" }, String(i + 1)),
    el("td", { class: "number" }, v.toFixed(4)), el("td", { class: "number" }, received[i].toFixed(4)));
  return el("details", { class: "sum-table" }, el("summary", {}, "The numbers as a table"),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The numbers as a table" },
      el("table", {},
        el("thead", {}, el("tr", {}, ["number", "ideal sum", "received"].map((text) => el("th", { scope: "col" }, text)))),
        el("tbody", {}, ideal.map(row)))));
}

export function makeSum() {
  const place = el("div", { class: "sum-place" });
  const words = el("div", { class: "sum-words" });
  const legend = el("p", { class: "sum-legend" },
    el("span", { class: "sum-key sum-key-received" }, "received"), el("span", { class: "sum-key sum-key-ideal" }, "ideal: the sum without noise or silence"),
    el("span", { class: "sum-key sum-key-band" }, "noise, one standard deviation"));
  const root = el("section", { class: "card server-sees", "aria-labelledby": "sees-title" },
    el("h2", { id: "sees-title" }, "What the server sees"), words, place);

  return {
    root,
    clear() {
      fill(place, el("p", { class: "soft empty" }, "The received sum is drawn here."));
      fill(words, el("p", {}, "All that the server receives stands here after an inference: noisy numbers, and no view and no picture."));
    },
    show(result) {
      fill(words, result.server_sees.map((text) => el("p", {}, text)));
      fill(place, chart(result), legend, table(result));
    },
  };
}
