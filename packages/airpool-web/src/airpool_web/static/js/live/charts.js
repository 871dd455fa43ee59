// Inferences a second and their latency over the last five minutes.

import { ms } from "./model.js";

const WINDOW = 300;
const SHORTEST = 60;
const HEIGHT = 150;

export class Charts {
  constructor({ dom, theme }) {
    this.dom = dom;
    this.theme = theme;
    this.plots = null;
    this.places = [0, 1].map(() => dom.el("div", { class: "live-chart", role: "img" }));
    this.words = [0, 1].map(() => dom.el("p", { class: "soft live-note" }, "\u00a0"));
    const figure = (i, title) => dom.el("div", {}, dom.el("h3", {}, title), this.places[i], this.words[i]);
    this.root = dom.el(
      "section",
      { class: "live-pair", "aria-label": "Throughput and latency" },
      figure(0, "Inferences a second"),
      figure(1, "Latency, ms"),
    );
    this.sized = new ResizeObserver(() => this.resize());
    this.places.forEach((place) => this.sized.observe(place));
  }

  resize() {
    this.plots?.forEach((plot, i) => {
      const width = this.places[i].clientWidth;
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    });
  }

  recolour(model) {
    this.plots?.forEach((plot) => plot.destroy());
    this.plots = null;
    this.draw(model);
  }

  made() {
    const { theme } = this;
    const axis = { stroke: theme.colour("--soft"), grid: { stroke: theme.colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui", labelFont: "12px system-ui" };
    const line = (label, name, dash) => ({ label, stroke: theme.colour(name), width: 2, dash, points: { show: false }, spanGaps: true });
    const plot = (place, series) =>
      new globalThis.uPlot(
        {
          width: place.clientWidth || 300,
          height: HEIGHT,
          padding: [8, 28, 0, 0],
          legend: { show: false },
          cursor: { show: false },
          scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 1, 1) * 1.1] } },
          axes: [{ ...axis, size: 28, values: (_, times) => times.map((time) => new Date(time * 1e3).toLocaleTimeString([], { hour12: false })), space: 90 }, { ...axis, size: 44 }],
          series: [{}, ...series],
        },
        [[], ...series.map(() => [])],
        place,
      );
    return [
      plot(this.places[0], [line("all", "--ours"), line("answered", "--soft", [6, 4])]),
      plot(this.places[1], [line("median", "--ours"), line("longest", "--soft", [6, 4])]),
    ];
  }

  draw(model) {
    const seconds = model.system?.seconds;
    if (!seconds || !this.places[0].clientWidth) return;
    this.plots ??= this.made();
    const { times, all, answered, medians, longest } = series(seconds, model.system);
    const now = seconds.at(-1);
    this.plots[0].setData([times, all, answered]);
    this.plots[1].setData([times, medians, longest]);
    const mean = (list) => list.reduce((sum, x) => sum + x, 0) / Math.max(1, list.length);
    const rate = mean(all.slice(-Math.max(1, Math.min(60, times.at(-1) - Math.floor(model.system.since)))));
    this.words[0].textContent = now ? `${now.all} in the last second, ${rate.toFixed(1)} on average of a minute; dashed: answered.` : "\u00a0";
    const last = seconds.filter((each) => each.median !== null).at(-1);
    this.words[1].textContent = last ? `Median ${ms(last.median)}, dashed: longest ${ms(last.longest)}, in the last second with any.` : "\u00a0";
    this.places.forEach((place, i) => place.setAttribute("aria-label", this.words[i].textContent));
  }
}

/** Up to five minutes, second by second; seconds without inferences are zeros, and have no latency. */
function series(seconds, { time, since }) {
  const end = Math.max(seconds.at(-1)?.time ?? 0, Math.floor(time));
  const known = new Map(seconds.map((each) => [each.time, each]));
  const length = Math.min(WINDOW, Math.max(SHORTEST, end - Math.floor(since)));
  const times = Array.from({ length }, (_, i) => end - length + 1 + i);
  const of = (name, scale = 1) => times.map((time) => (known.has(time) && known.get(time)[name] !== null ? known.get(time)[name] * scale : null));
  const zeros = (name) => times.map((time) => known.get(time)?.[name] ?? 0);
  return { times, all: zeros("all"), answered: zeros("answered"), medians: of("median", 1e3), longest: of("longest", 1e3) };
}
