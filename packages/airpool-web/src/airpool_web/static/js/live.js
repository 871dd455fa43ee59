// A running system, watched: devices, inferences, rates, the course of the last slot. Read-only but for one button.
//
// One stream, /api/live: a snapshot, then changes. It is closed while another view is looked at.

import { connection } from "./api.js";
import { Ask } from "./live/ask.js";
import { Charts } from "./live/charts.js";
import { Changes, Inferences } from "./live/lists.js";
import { Course } from "./live/course.js";
import { Devices } from "./live/devices.js";
import { Overview } from "./live/overview.js";
import { Model } from "./live/model.js";

const DRAW_MS = 250;
const AGAIN_MS = 2_000;
const EVENTS = ["snapshot", "system", "state", "devices", "inference", "course", "second", "local"];

/** A stylesheet or script of the page, once. */
function loaded(tag, attributes, dom) {
  const known = document.getElementById(attributes.id);
  if (known) return Promise.resolve();
  return new Promise((done, failed) => {
    const node = dom.el(tag, { ...attributes, onload: done, onerror: () => failed(new Error(`${attributes.id} is missing`)) });
    document.head.append(node);
  });
}

/** Mounts the view into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export async function mount(root, context) {
  const { dom } = context;
  await Promise.all([
    loaded("link", { id: "live-css", rel: "stylesheet", href: "css/live.css" }, dom),
    loaded("script", { id: "uplot", src: "vendor/uPlot.iife.min.js" }, dom),
  ]);
  const model = new Model();
  const aloud = dom.el("p", { class: "hidden", role: "status", "aria-live": "polite" });
  const parts = [Overview, Devices, Ask, Charts, Course, Inferences, Changes].map((Part) => new Part(context));
  const [overview, devices, ask, charts, course, inferences, changes] = parts.map((part) => part.root);
  const empty = dom.el("div", { class: "card live-empty", hidden: true });
  const system = dom.el(
    "div",
    { class: "live-system" },
    devices,
    dom.el("div", { class: "live-pair" }, course, changes),
    charts,
    dom.el("div", { class: "live-pair live-uneven" }, inferences, ask),
  );
  dom.fill(root, dom.el("h2", { class: "hidden" }, "A running system"), overview, empty, system, aloud);

  let source = null;
  let timer = null;
  let again = null;

  function draw() {
    timer = null;
    const none = model.connection.state === "no server";
    empty.hidden = !none;
    system.hidden = none;
    if (none) dom.fill(empty, explained(dom));
    for (const part of parts) part.draw(model);
    if (model.aloud.length) aloud.textContent = model.aloud.splice(0).slice(-3).join(" ");
  }

  function take(event) {
    const soon = model.take(event.type, JSON.parse(event.data));
    timer ??= setTimeout(draw, soon ? 0 : DRAW_MS);
  }

  function open() {
    clearTimeout(again);
    if (source) return;
    source = new EventSource("/api/live");
    for (const name of EVENTS) source.addEventListener(name, take);
    source.addEventListener("open", () => connection(true));
    source.addEventListener("error", () => {
      model.lostPage();
      draw();
      connection(false);
      if (source?.readyState !== EventSource.CLOSED) return; // it tries again by itself
      close();
      again = setTimeout(open, AGAIN_MS);
    });
  }

  function close() {
    source?.close();
    source = null;
    clearTimeout(timer);
    clearTimeout(again);
    timer = null;
  }

  addEventListener("pagehide", close);
  context.theme.onChange(() => charts.isConnected && parts[3].recolour(model));
  draw();
  return { show: open, hide: close };
}

function explained(dom) {
  const command = (text) => dom.el("pre", { tabindex: 0 }, dom.el("code", {}, text));
  return [
    dom.el("h3", {}, "No running system is watched"),
    dom.el("p", {}, "Start a whole system on this machine, with its page beside it:"),
    command("airpool up --devices 12 --ui"),
    dom.el("p", {}, "Or watch the server of one that runs already:"),
    command("airpool ui --server 127.0.0.1:8000"),
    dom.el(
      "p",
      { class: "soft" },
      "Then you see here which devices take part and why others do not, what each has left of its budget, each inference ",
      "with its latency, and the course of a slot. Nothing that a camera sees is shown: only its own device has it.",
    ),
  ];
}
