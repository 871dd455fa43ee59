// The account of the network in the address: asked for again with every change, part by part, the newest wins.
//
// Parts come in the order in which they are computed: network, leakage, error, cost, accuracy, curve. Each is kept
// until the next one of its name, so that nothing jumps; `pending` says which are of an earlier network.
//
// While a slider moves, a request is left alone for PATIENCE_MS or until its ε is there; then the newest settings are
// asked about. So the server is never asked faster than it answers, and every repaint shows a state that was set. Until
// it rests, only what is quick is asked for (?quick): nothing slow is begun to be thrown away.

import * as api from "./api.js";

const PATIENCE_MS = 250;
const REST_MS = 300;
const BURST_MS = 400; // changes that follow each other as fast, such as held arrow keys, are a move too
const RETRY_MS = 2_000;
const BUSY = 429;

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
    this.changed = null;
    this.began = -Infinity;
    store.subscribe(() => this.ask());
  }

  /** Calls `then(content)` with every new part of this name, and at once with the one that is there. */
  on(name, then) {
    if (this.parts[name]) then(this.parts[name]);
    this.addEventListener(`part:${name}`, () => this.parts[name] && then(this.parts[name]));
  }

  /** Calls `then(this)` when the state changes: asked, part by part, done, failed. */
  onState(then) {
    this.addEventListener("state", () => then(this));
    then(this);
  }

  /** Whether numbers are on their way. */
  get busy() {
    return this.asking !== null || Boolean(this.rest);
  }

  /** Asks about the settings in the address, unless that was done; soon, where an answer is about to come. */
  ask({ again = false } = {}) {
    const key = JSON.stringify(Object.entries(this.store.settings).sort());
    clearTimeout(this.later);
    this.later = 0;
    if (key === this.asked && !again) return;
    this.changed ??= performance.now();
    const wait = this.asking && !this.told ? this.began + PATIENCE_MS - performance.now() : 0;
    if (wait > 0) this.later = setTimeout(() => this.send(), wait);
    else this.send();
  }

  async send({ resting = false } = {}) {
    for (const timer of [this.later, this.retry, this.rest]) clearTimeout(timer);
    this.later = this.rest = 0;
    const quick = !resting && (this.store.moving || performance.now() - this.began < BURST_MS);
    const settings = this.store.settings;
    this.asked = JSON.stringify(Object.entries(settings).sort());
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    delete this.parts.search;
    delete this.parts.waiting;
    this.pending = new Set(Object.keys(this.parts));
    this.error = null;
    this.told = false;
    this.began = performance.now();
    this.since = resting ? null : (this.changed ?? this.began);
    this.changed = null;
    this.tell();
    try {
      await api.stream(`/api/answer${quick ? "?quick" : ""}`, settings, (part) => asking === this.asking && this.take(part), asking.signal);
      if (asking !== this.asking) return;
      if (quick) this.rest = setTimeout(() => this.send({ resting: true }), REST_MS);
      else this.forget();
    } catch (error) {
      if (error.name === "AbortError" || asking !== this.asking) return;
      this.error = error;
      if (error.status === BUSY) this.retry = setTimeout(() => this.ask({ again: true }), RETRY_MS);
    }
    if (this.asking === asking) this.asking = null;
    this.tell();
  }

  /** What this network does not have, such as a curve that takes too long, must not stand there from the one before. */
  forget() {
    for (const name of this.pending) {
      delete this.parts[name];
      this.dispatchEvent(new Event(`part:${name}`));
    }
    this.pending.clear();
  }

  take(part) {
    const { part: name, ...content } = part;
    this.parts[name] = content;
    this.pending.delete(name);
    this.dispatchEvent(new Event(`part:${name}`));
    this.tell();
    if (name !== "leakage") return;
    this.told = true;
    const start = this.since;
    if (start !== null) requestAnimationFrame(() => performance.measure("airpool:answer", { start, end: performance.now() }));
    if (this.later) this.send();
  }

  tell() {
    this.dispatchEvent(new Event("state"));
  }
}
