// Accuracy over ε: each mark is a design that can be loaded. The bar at a mark is the interval of its accuracy.

import { svg } from "../dom.js";
import { accuracy, epsilon, plain } from "../words.js";

const HEIGHT = 300;
const EDGE = { left: 44, right: 14, top: 14, bottom: 58 };
const TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/** @param {{plan: object | null, points: object[], width: number, load: (design: object) => void, same: (design: object) => boolean}} what */
export function chart({ plan, points, width, load, same }) {
  const at = axes(plan, points, width);
  const ours = points.filter((point) => point.kind === "ours");
  const paper = points.filter((point) => point.kind === "paper");
  const named = plan ? `Accuracy over ε of ${points.length} designs. Each can be loaded.` : "An empty chart: nothing is planned yet.";
  return svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": named, "aria-describedby": "frontier-help" },
    grid(at, width),
    line(at, paper, "paper"), line(at, ours, "ours"),
    paper.map((point, index) => mark(at, point, index, { load, same })),
    ours.map((point, index) => mark(at, point, index, { load, same })),
    points.length ? legend(paper.length > 0, width) : null);
}

function axes(plan, points, width) {
  const known = [...points, ...(plan ? [plan.best] : [])].map((each) => Number(each.epsilon)).filter((x) => x > 0 && Number.isFinite(x));
  const [low, high] = known.length ? [Math.min(...known) / 1.25, Math.max(...known) * 1.25] : [0.4, 10];
  const inner = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  return {
    low,
    high,
    x: (x) => EDGE.left + (inner.width * Math.log(x / low)) / Math.log(high / low),
    y: (y) => EDGE.top + inner.height * (1 - y),
  };
}

function grid(at, width) {
  const bottom = HEIGHT - EDGE.bottom;
  return svg("g", { class: "grid" },
    [0, 0.2, 0.4, 0.6, 0.8, 1].map((y) => [svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: at.y(y), y2: at.y(y) }),
      svg("text", { x: EDGE.left - 6, y: at.y(y) + 4, "text-anchor": "end" }, y === 0 || y === 1 ? String(y) : y.toFixed(1).slice(1))]),
    TICKS.filter((x) => x >= at.low && x <= at.high).map((x) => svg("text", { x: at.x(x), y: bottom + 18, "text-anchor": "middle" }, String(x))),
    svg("text", { x: EDGE.left, y: HEIGHT - 8 }, "← more private"),
    svg("text", { x: (EDGE.left + width - EDGE.right) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, "ε"),
    svg("text", { x: width - EDGE.right, y: HEIGHT - 8, "text-anchor": "end" }, "less private →"));
}

function line(at, points, kind) {
  if (points.length < 2) return null;
  return svg("path", { class: `line ${kind}`, d: `M${points.map((point) => `${at.x(point.epsilon)} ${at.y(point.accuracy)}`).join("L")}` });
}

function mark(at, point, index, { load, same }) {
  const [x, y] = [at.x(point.epsilon), at.y(point.accuracy)];
  const words = `${point.kind === "paper" ? "The paper’s network" : "Ours"}: ${point.words}. ε = ${epsilon(point.epsilon)}, accuracy ${accuracy(point.accuracy)}, ` +
    `${plain(point.channel_uses)} channel uses. Load it.`;
  const shape = point.kind === "paper" ? svg("path", { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z` }) : svg("circle", { cx: x, cy: y, r: 6 });
  return svg("g", { class: `mark ${point.kind}${same(point) ? " here" : ""}`, role: "button", tabindex: 0, "aria-label": words, "aria-pressed": String(same(point)),
    "data-design": `${point.kind}-${index}`,
    onclick: () => load(point),
    onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      load(point);
    } },
    svg("line", { class: "interval", x1: x, x2: x, y1: at.y(point.high), y2: at.y(point.low) }),
    svg("circle", { class: "target", cx: x, cy: y, r: 14 }), shape, svg("title", {}, words));
}

function legend(paper, width) {
  const entries = [["ours", "airpool’s design"], ...(paper ? [["paper", "the paper’s network"]] : [])];
  return svg("g", { transform: `translate(${width - EDGE.right - 235} ${HEIGHT - EDGE.bottom - 16 - 20 * entries.length})`, class: "legend" },
    entries.map(([kind, text], index) => svg("g", { class: `mark ${kind}`, transform: `translate(0 ${20 * index})` },
      kind === "paper" ? svg("path", { d: "M6 -7L13 0L6 7L-1 0Z" }) : svg("circle", { cx: 6, cy: 0, r: 6 }), svg("text", { x: 22, y: 4 }, text))),
    svg("text", { x: 0, y: 20 * entries.length + 4 }, "bar: 95 % interval of the accuracy"));
}
