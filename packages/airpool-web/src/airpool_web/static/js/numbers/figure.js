// Accuracy over ε as one SVG drawing, which serves the screen and the downloads.
//
// The band is the 95 % interval of the accuracy. The privacy parameter is the position along x, and nothing else.

import { svg } from "../dom.js";
import { accuracy as shown, epsilon as bound, number } from "../words.js";

const EDGE = { left: 52, right: 16, top: 14, bottom: 58 };
const TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/**
 * The drawing.
 * @param {{curve: object, here: object, colours: (name: string) => string, width: number, height: number, about?: string}} what
 *   about: parameters and version, for a drawing that stands alone; it then has its legend inside.
 * @returns {{root: SVGElement, source: string}} The element, and the same as a file.
 */
export function figure({ curve, here, colours, width, height, about }) {
  const ink = colours("--ink");
  const soft = colours("--soft");
  const at = axes(curve, here, width, height);
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": described(curve, here), "font-family": "system-ui, sans-serif", "font-size": 13, fill: ink },
    about ? svg("desc", {}, about) : null,
    svg("rect", { width, height, fill: colours("--raised") }),
    grid(at, colours("--line"), soft, width, height),
    band(at, curve, colours("--ours")),
    line(at, curve.epsilon, curve.vote, { stroke: soft, "stroke-width": 1.5, "stroke-dasharray": "5 4" }),
    line(at, curve.epsilon, curve.ours, { stroke: colours("--ours"), "stroke-width": 2.5 }),
    mark(at, curve, here, colours, width),
    printed(at, curve.paper ?? [], colours("--paper-mark")),
    about ? legend(curve, colours, soft) : null);
  return { root, source: new XMLSerializer().serializeToString(root) };
}

function axes(curve, here, width, height) {
  const all = [...(curve.epsilon ?? []), ...(curve.paper ?? []).map((point) => point.epsilon), curve.here?.epsilon, here?.epsilon]
    .map(number).filter((x) => x > 0 && Number.isFinite(x));
  const low = Math.max(1e-3, Math.min(0.1, ...all) / 1.1);
  const high = Math.min(1e4, Math.max(10, ...all) * 1.1);
  const inner = { width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
  const share = (x) => Math.log(Math.min(high, Math.max(low, x)) / low) / Math.log(high / low);
  return { low, high, x: (x) => round(EDGE.left + inner.width * share(x)), y: (y) => round(EDGE.top + inner.height * (1 - y)) };
}

const round = (x) => Math.round(x * 10) / 10;

function grid(at, colour, soft, width, height) {
  const bottom = height - EDGE.bottom;
  const room = width < 480 ? 44 : 30; // pixels between two numbers
  const ticks = TICKS.filter((x) => x >= at.low && x <= at.high);
  const numbered = ticks.filter((x) => /^[15]/.test(x.toExponential()) || at.x(2) - at.x(1) > room);
  return svg("g", {},
    [0, 0.2, 0.4, 0.6, 0.8, 1].map((y) => [
      svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: at.y(y), y2: at.y(y), stroke: colour }),
      svg("text", { x: EDGE.left - 8, y: at.y(y) + 4, "text-anchor": "end", fill: soft }, y === 0 ? "0" : y === 1 ? "1" : y.toFixed(1).slice(1)),
    ]),
    ticks.map((x) => svg("line", { x1: at.x(x), x2: at.x(x), y1: bottom, y2: bottom + 5, stroke: soft })),
    numbered.map((x) => svg("text", { x: at.x(x), y: bottom + 19, "text-anchor": "middle", fill: soft }, String(x))),
    svg("text", { x: EDGE.left, y: height - 10, fill: soft }, "← more private"),
    svg("text", { x: width - EDGE.right, y: height - 10, "text-anchor": "end", fill: soft }, "less private →"),
    svg("text", { x: (EDGE.left + width - EDGE.right) / 2, y: height - 10, "text-anchor": "middle" }, width < 480 ? "ε" : "ε of the worst device"),
    svg("text", { x: 14, y: (EDGE.top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(EDGE.top + bottom) / 2})` }, "accuracy"));
}

const mean = (point) => number(point && typeof point === "object" ? point.mean : point);

function line(at, xs = [], points = [], style = {}) {
  let path = "";
  let down = false;
  xs.forEach((x, index) => {
    const y = mean(points[index]);
    if (Number.isNaN(y)) {
      down = false;
      return;
    }
    path += `${down ? "L" : "M"}${at.x(x)} ${at.y(y)}`;
    down = true;
  });
  return path ? svg("path", { d: path, fill: "none", "stroke-linejoin": "round", ...style }) : null;
}

function band(at, curve, colour) {
  const known = (curve.epsilon ?? []).map((x, index) => ({ x, point: curve.ours?.[index] })).filter(({ point }) => point && point.low !== undefined && point.low !== null);
  if (known.length < 2) return null;
  const up = known.map(({ x, point }) => `${at.x(x)} ${at.y(point.high)}`);
  const down = known.map(({ x, point }) => `${at.x(x)} ${at.y(point.low)}`).reverse();
  return svg("path", { d: `M${[...up, ...down].join("L")}Z`, fill: colour, "fill-opacity": 0.22 });
}

function printed(at, points, colour) {
  return points.map((point) => svg("rect", { x: at.x(point.epsilon) - 4.5, y: at.y(point.accuracy) - 4.5, width: 9, height: 9, fill: colour,
    transform: `rotate(45 ${at.x(point.epsilon)} ${at.y(point.accuracy)})` }, svg("title", {}, `the paper prints ${shown(point.accuracy)} at its ε = ${point.epsilon}`)));
}

function mark(at, curve, here, colours, width) {
  const x = number(curve.here?.epsilon ?? here?.epsilon);
  const y = number(here?.mean ?? curve.here?.accuracy);
  if (!(x > 0) || !Number.isFinite(x) || Number.isNaN(y)) return null;
  const right = at.x(x) > width * 0.6;
  const beside = { x: at.x(x) + (right ? -11 : 11), "text-anchor": right ? "end" : "start", stroke: colours("--raised"), "stroke-width": 4, "paint-order": "stroke" };
  const low = Math.min(at.y(y) + 24, at.y(0.14));
  return svg("g", {},
    svg("line", { x1: at.x(x), x2: at.x(x), y1: at.y(0), y2: at.y(y), stroke: colours("--ink"), "stroke-dasharray": "2 3" }),
    svg("circle", { cx: at.x(x), cy: at.y(y), r: 6, fill: colours("--raised"), stroke: colours("--ink"), "stroke-width": 2.5 }),
    svg("text", { ...beside, y: low, "font-weight": 650 }, "you are here"),
    width < 480 ? null : svg("text", { ...beside, y: low + 16 }, `ε = ${bound(x)}, accuracy ${shown(y)}`));
}

function legend(curve, colours, soft) {
  const stroke = (style) => svg("line", { x1: 0, x2: 26, y1: 0, y2: 0, ...style });
  const entries = [
    [[stroke({ stroke: colours("--ours"), "stroke-opacity": 0.22, "stroke-width": 11 }), stroke({ stroke: colours("--ours"), "stroke-width": 2.5 })],
      "airpool, with the 95 % interval of the accuracy"],
    curve.vote?.some((point) => point !== null) && [stroke({ stroke: soft, "stroke-width": 1.5, "stroke-dasharray": "5 4" }), "vote"],
    curve.paper?.length && [svg("rect", { x: 8.5, y: -4.5, width: 9, height: 9, fill: colours("--paper-mark"), transform: "rotate(45 13 0)" }), "the paper, at the ε it claims"],
  ].filter(Boolean);
  return entries.map(([key, words], index) => svg("g", { transform: `translate(${EDGE.left + 14} ${EDGE.top + 16 + 20 * index})` }, key, svg("text", { x: 36, y: 4 }, words)));
}

/** The drawing in words, for those who cannot see it. */
export function described(curve, here) {
  const ends = (curve.epsilon ?? []).map((x, index) => [x, mean(curve.ours?.[index])]).filter(([, y]) => !Number.isNaN(y));
  const course = ends.length ? `It goes from ${shown(ends[0][1])} at ε = ${ends[0][0]} to ${shown(ends.at(-1)[1])} at ε = ${ends.at(-1)[0]}.` : "";
  const place = here ? ` You are at ε = ${bound(curve.here?.epsilon ?? here.epsilon)}, accuracy ${shown(here.mean)}.` : "";
  return `Predicted accuracy over ε, on a logarithmic axis; small ε, at the left, is more private. ${course}${place}`;
}
