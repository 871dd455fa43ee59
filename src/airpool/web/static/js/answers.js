// The account of the network in the address: asked for again with every change, part by part, the newest wins.
//
// Parts come in the order in which they are computed: network, leakage, error, cost, accuracy, curve. Each is kept
// until the next one of its name, so that nothing jumps; `pending` says which are of an earlier network.

import * as api from "./api.js";

const RETRY_MS = 2_000;

export class Answers extends EventTarget {
  /** @param {import("./store.js").Store} store */
  constructor(store) {
    super();
    this.store = store;
    this.parts = {};
    this.pending = new Set();
    this.error = null;
    this.asking = null;
    this.asked = null;
    store.subscribe(() => this.ask());
  }

  /** Calls `then(content)` with every new part of this name, and at once with the one that is there. */
  on(name, then) {
    if (this.parts[name]) then(this.parts[name]);
    this.addEventListener(`part:${name}`, () => then(this.parts[name]));
  }

  /** Calls `then(this)` when the state changes: asked, part by part, done, failed. */
  onState(then) {
    this.addEventListener("state", () => then(this));
    then(this);
  }

  async ask({ again = false } = {}) {
    const settings = this.store.settings;
    const key = JSON.stringify(Object.entries(settings).sort());
    if (key === this.asked && !again) return;
    this.asked = key;
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    clearTimeout(this.retry);
    this.pending = new Set(Object.keys(this.parts));
    this.error = null;
    this.began = performance.now();
    this.tell();
    try {
      await api.stream("/api/answer", settings, (part) => this.take(part), asking.signal);
      this.pending.clear();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.error = error;
      if (!(error.field !== null || error instanceof api.AskedError === false)) {
        this.retry = setTimeout(() => this.ask({ again: true }), RETRY_MS);
      }
    }
    if (this.asking === asking) this.asking = null;
    this.tell();
  }

  take(part) {
    const { part: name, ...content } = part;
    this.parts[name] = content;
    this.pending.delete(name);
    this.dispatchEvent(new Event(`part:${name}`));
    this.tell();
    if (name === "leakage") {
      const began = this.began;
      requestAnimationFrame(() => performance.measure("airpool:answer", { start: began, end: performance.now() }));
    }
  }

  tell() {
    this.dispatchEvent(new Event("state"));
  }
}
