// A long computation: the button that starts it, its progress, the button that stops it, and how it ended.

import { el } from "./dom.js";

/**
 * @param {{label: string, again?: string, run: (tell: (state: {text?: string, done?: number, total?: number}) => void, signal: AbortSignal) => Promise<string | void>}} what
 *   run: does it; what it returns is said at the end. A stop aborts the signal.
 * @returns {{root: HTMLElement, start: () => Promise<void>, stop: () => void, say: (text: string) => void, running: boolean}}
 */
export function runner({ label, again = label, run }) {
  let control = null;
  const start = el("button", { type: "button", class: "main", onclick: () => made.start() }, label);
  const stop = el("button", { type: "button", onclick: () => made.stop(), disabled: true }, "Stop");
  const bar = el("progress", { max: 1, "aria-label": `Progress: ${label}`, class: "idle" });
  const status = el("p", { class: "soft told", role: "status" });

  function tell({ text, done, total }) {
    if (text !== undefined && text !== status.textContent) status.textContent = text;
    if (total) bar.value = done / total;
    else if (total === 0) bar.removeAttribute("value");
  }

  function busy(yes) {
    start.disabled = yes;
    stop.disabled = !yes;
    bar.classList.toggle("idle", !yes);
    bar.removeAttribute("value");
  }

  const made = {
    root: el("div", { class: "runner" }, el("div", { class: "buttons" }, start, stop, bar), status),
    get running() {
      return control !== null;
    },
    say(text) {
      status.textContent = text;
    },
    stop() {
      control?.abort();
    },
    async start() {
      if (control) return;
      const own = (control = new AbortController());
      const focused = document.activeElement === start;
      busy(true);
      if (focused) stop.focus();
      status.className = "soft told";
      tell({ text: "Asking …", total: 0 });
      try {
        const said = await run(tell, own.signal);
        status.textContent = said ?? "";
      } catch (error) {
        if (error.name === "AbortError") {
          status.textContent = "Stopped.";
        } else {
          status.className = "failed told";
          status.textContent = error.message;
        }
      } finally {
        control = null;
        const back = document.activeElement === stop;
        busy(false);
        start.textContent = again;
        if (back) start.focus();
      }
    },
  };
  return made;
}

/** Calls `then` when an element becomes wider or narrower. */
export function widened(element, then) {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    then();
  }).observe(element);
}

/** Calls `then` when nothing has happened for a while. */
export function settled(then, ms = 350) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(then, ms);
  };
}
