// Lower bounds on ε over the number of runs, beside what is claimed. ε is a line; a bound is a triangle that points up.

import { svg } from "../dom.js";
import { epsilon, number, plain } from "../words.js";

const HEIGHT = 260;
const EDGE = { left: 44, right: 12, top: 30, bottom: 40 };

/** @param {{claim: object | null, looks: object[], width: number}} what */
export function chart({ claim, looks, width }) {
  const runs = claim?.runs ?? [1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000];
  const at = axes(claim, looks, runs, width);
  const lines = claim ? claimed(claim, at, width) : [];
  return svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": words(claim, looks) },
    grid(at, runs, width), open(claim, looks, at), ceilings(looks, at), lines,
    looks.length ? svg("path", { class: "best", d: stairs(looks, at) }) : null,
    looks.map((look) => svg("path", { class: "lower", d: up(at.x(look.runs), at.y(look.lower)) },
      svg("title", {}, `${plain(look.runs)} runs a side show ε ≥ ${look.lower.toFixed(3)}`))));
}

const target = (claim) => number(claim.target === "paper" ? claim.paper : claim.epsilon);

function axes(claim, looks, runs, width) {
  const values = looks.map((look) => look.best);
  if (claim && Number.isFinite(target(claim))) values.push(target(claim));
  const paper = claim ? number(claim.paper) : NaN;
  if (Number.isFinite(paper) && paper < 2.5 * target(claim)) values.push(paper);
  const high = Math.max(0.5, ...values, claim ? 0 : 2) * 1.15;
  const inner = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const share = (n) => (runs.length < 2 ? 0.5 : Math.log(n / runs[0]) / Math.log(runs.at(-1) / runs[0]));
  return {
    high,
    x: (n) => EDGE.left + 14 + (inner.width - 28) * share(n),
    y: (value) => EDGE.top + inner.height * (1 - Math.min(number(value), high) / high),
  };
}

function grid(at, runs, width) {
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e4, 1e5].find((each) => at.high / each <= 6) ?? at.high / 5;
  const ticks = Array.from({ length: Math.floor(at.high / step) + 1 }, (_, index) => index * step);
  const every = width < 480 ? 2 : 1;
  return svg("g", { class: "grid" },
    ticks.map((value) => [svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: at.y(value), y2: at.y(value) }),
      svg("text", { x: EDGE.left - 6, y: at.y(value) + 4, "text-anchor": "end" }, plain(value, 3))]),
    runs.filter((_, index) => index % every === 0).map((n) => svg("text", { x: at.x(n), y: HEIGHT - EDGE.bottom + 18, "text-anchor": "middle" }, n >= 1000 ? `${n / 1000}k` : n)),
    svg("text", { x: 4, y: 14 }, "ε"),
    svg("text", { x: width - EDGE.right, y: HEIGHT - 4, "text-anchor": "end" }, "runs a side"));
}

/** The claims: lines across, each with its name. */
function claimed(claim, at, width) {
  const found = [];
  const put = (kind, value, text) => {
    const x = number(value);
    if (!Number.isFinite(x)) return;
    const beyond = x > at.high;
    const y = beyond ? EDGE.top : at.y(x);
    found.push(svg("g", { class: kind }, beyond ? null : svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y, y2: y }),
      svg("text", { x: beyond ? width - EDGE.right : EDGE.left + 6, y: beyond ? 14 : y - 6, "text-anchor": beyond ? "end" : "start" }, beyond ? `${text} ↑` : text)));
  };
  put("exact", claim.epsilon, claim.target === "paper" ? `exact ε = ${epsilon(claim.epsilon)}` : `claimed and proven: ε = ${epsilon(claim.epsilon)}`);
  put("paper", claim.paper, claim.target === "paper" ? `Theorem 1 claims ε = ${plain(claim.paper, 3)}` : `the paper would claim ${plain(claim.paper, 4)}`);
  return found;
}

/** What is still open: between the best bound so far and the claim. */
function open(claim, looks, at) {
  if (!claim || claim.target === "paper" || !looks.length) return null;
  const top = at.y(target(claim));
  return svg("path", { class: "open", d: `${stairs(looks, at)}V${top}H${at.x(looks[0].runs)}Z` });
}

function ceilings(looks, at) {
  const shown = looks.filter((look) => number(look.ceiling) <= at.high);
  return shown.map((look) => svg("line", { class: "ceiling", x1: at.x(look.runs) - 8, x2: at.x(look.runs) + 8, y1: at.y(look.ceiling), y2: at.y(look.ceiling) },
    svg("title", {}, `${plain(look.runs)} runs can show at most ${look.ceiling.toFixed(2)}`)));
}

function stairs(looks, at) {
  return looks.map((look, index) => `${index ? `H${at.x(look.runs)}V` : `M${at.x(look.runs)} `}${at.y(look.best)}`).join("");
}

const up = (x, y) => `M${x} ${y - 6}L${x + 6} ${y + 5}H${x - 6}Z`;

function words(claim, looks) {
  if (!claim) return "An empty chart: no attack was played yet.";
  const last = looks.at(-1);
  const said = claim.target === "paper" ? `The paper claims ${plain(claim.paper, 3)}.` : `Claimed: ${epsilon(claim.epsilon)}.`;
  return `Lower bounds on ε over the number of runs. ${said} ${last ? `After ${looks.length} looks the best bound is ${last.best.toFixed(3)}.` : "No look yet."}`;
}
