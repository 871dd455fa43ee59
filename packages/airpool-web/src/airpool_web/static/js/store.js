// The state of the page: one flat object of texts, which is the address after #. What is left out has its default.
//
//   #tab=scene&way=epsilon&epsilon=2&devices=12&fading=rician&object=chair_0&seed=7
//
// Settings of a network have the names of the command line's options, with _ for -.

// Names that say what is looked at; all others say which network it is, and are asked about again when they change.
export const LOOK = new Set(["tab", "object", "seed"]);
const MOST_UNDO = 200;
const MOST_TEXT = 16_000; // as the server's: a list with one value for each device is long
const ADDRESS_MS = 250; // browsers refuse an address that changes faster than about 200 times in 30 s

function read() {
  const found = {};
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (/^[a-z][a-z0-9_]{0,40}$/.test(name) && value.length <= MOST_TEXT) found[name] = value;
  }
  return found;
}

function part(state, look) {
  return Object.fromEntries(Object.entries(state).filter(([name]) => LOOK.has(name) === look));
}

function same(a, b) {
  return JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
}

export class Store {
  constructor() {
    this.state = read();
    this.listeners = new Set();
    this.past = [];
    this.future = [];
    addEventListener("hashchange", () => {
      const found = read();
      if (!same(found, this.state)) this.put(found, true);
    });
  }

  /** A value, or "" where it has its default. */
  get(name) {
    return this.state[name] ?? "";
  }

  /** All that describes the network: what the server is asked about. */
  get settings() {
    return part(this.state, false);
  }

  /**
   * Changes values; "" or null is the default again. keep: whether undo comes back to what was before (false while a
   * slider moves: the change that ends the move is kept).
   */
  set(values, { keep = true } = {}) {
    const next = { ...this.state };
    for (const [name, value] of Object.entries(values)) {
      if (value === "" || value === null || value === undefined) delete next[name];
      else next[name] = String(value);
    }
    this.put(next, keep);
  }

  /** Replaces all settings of the network, as a preset does; what is looked at stays. */
  replace(settings) {
    this.put({ ...Object.fromEntries(Object.entries(settings).map(([k, v]) => [k, String(v)])), ...part(this.state, true) }, true);
  }

  // Undo is about settings: what is looked at is never taken back.
  put(next, keep) {
    const before = this.state;
    const settled = this.settled ?? part(before, false);
    if (keep) {
      if (!same(settled, part(next, false))) {
        this.past = [...this.past, settled].slice(-MOST_UNDO);
        this.future = [];
      }
      this.settled = undefined;
    } else if (!same(settled, part(next, false))) {
      this.settled = settled;
    }
    this.show(next, before);
  }

  show(next, before) {
    this.state = next;
    this.address();
    if (!same(next, before)) for (const listener of this.listeners) listener(next, before);
  }

  /** Writes the address: at once, or as soon as it may be written again. */
  address() {
    if (this.writing) return;
    const write = () => {
      const hash = new URLSearchParams(this.state).toString();
      if (hash === location.hash.slice(1)) return;
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname);
      this.writing = setTimeout(() => {
        this.writing = 0;
        write();
      }, ADDRESS_MS);
    };
    write();
  }

  /** Whether a change is under way that undo does not know yet: a slider moves. */
  get moving() {
    return this.settled !== undefined;
  }

  get canUndo() {
    return this.past.length > 0;
  }

  get canRedo() {
    return this.future.length > 0;
  }

  undo() {
    if (!this.canUndo) return;
    this.future.push(part(this.state, false));
    this.show({ ...this.past.pop(), ...part(this.state, true) }, this.state);
  }

  redo() {
    if (!this.canRedo) return;
    this.past.push(part(this.state, false));
    this.show({ ...this.future.pop(), ...part(this.state, true) }, this.state);
  }

  /** Calls `listener(state, before)` after every change; returns how to stop it. */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
