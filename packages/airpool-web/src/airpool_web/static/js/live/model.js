// What is known of the system: the last snapshot with all changes since. Bounded, as the server's own.

const MOST = { inferences: 50, changes: 50, seconds: 300 };
const WORDS = { up: "up", waiting: "not ready", aside: "set aside", down: "down", unknown: "unknown" };

/** A device's state in a word. */
export const word = (state) => WORDS[state] ?? state;

export class Model {
  constructor() {
    this.connection = { state: "connecting", reason: "" };
    this.address = null;
    this.ask = { allowed: false, reason: "" };
    this.local = {};
    this.system = null;
    /** Sentences for those who listen: changes of state alone, not every inference. @type {string[]} */
    this.aloud = [];
  }

  /** Takes an event; returns whether it should be seen at once. */
  take(name, data) {
    const system = this.system;
    switch (name) {
      case "snapshot":
        Object.assign(this, { connection: data.connection, address: data.address, ask: data.ask, local: data.local });
        this.system = data.system;
        return true;
      case "system":
        this.system = data;
        return true;
      case "state":
        this.connection = data;
        this.aloud.push(data.state === "connected" ? "The server is connected." : `The server is ${data.state}: ${data.reason}.`);
        return true;
      case "local":
        this.local = data;
        return true;
      default:
        if (system) return this.change(system, name, data);
        return false;
    }
  }

  change(system, name, data) {
    const keep = (list, ...more) => {
      system[list] = [...system[list], ...more].slice(-MOST[list]);
    };
    if (name === "devices") {
      for (const each of data.devices) system.devices[each.device] = each;
      system.air = data.air;
      keep("changes", ...data.changes);
      for (const each of data.changes) this.aloud.push(`Device ${each.device} is ${word(each.state)}.`);
      return true;
    }
    if (name === "course") system.course = data;
    if (name === "second") keep("seconds", data);
    if (name === "inference") {
      keep("inferences", data);
      system.counts[data.status] = (system.counts[data.status] ?? 0) + 1;
      const totals = system.totals;
      totals.inferences = (totals.inferences ?? 0) + 1;
      totals.slots = (totals.slots ?? 0) + data.slots;
      totals.spent = (totals.spent ?? 0) + (data.spent ? 1 : 0);
    }
    return false;
  }

  /** The page's own server is gone: nothing here is news any more. */
  lostPage() {
    this.connection = { state: "lost", reason: "the page has lost its own server" };
  }

  /** Devices in the order of their indices. */
  get devices() {
    return Object.values(this.system?.devices ?? {}).sort((a, b) => a.device - b.device);
  }
}

/** A number with so many digits after the point, rounded up or down: what was spent is never shown as less. */
export function rounded(value, digits, up) {
  if (value === null || value === undefined) return "?";
  if (value === "inf") return "∞";
  const scale = 10 ** digits;
  return ((up ? Math.ceil(value * scale - 1e-9) : Math.floor(value * scale + 1e-9)) / scale).toFixed(digits);
}

const HIGH = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A small number: 10⁻⁵, or 2.5·10⁻⁶. */
export function small(value) {
  if (typeof value !== "number" || value >= 1e-3 || value <= 0) return String(value);
  const [factor, power] = value.toExponential().split("e");
  return `${factor === "1" ? "" : `${factor}·`}10${[...power].map((each) => HIGH[each]).join("")}`;
}

/** A device's reason without the state, which stands beside it. */
export function plain(reason) {
  const said = reason.replace(/^(not ready; |set aside: |not connected: )/, "").replace(/^not ready$/, "it does not answer");
  return said.charAt(0).toUpperCase() + said.slice(1);
}

/** A time of day. */
export const clock = (seconds) => new Date(seconds * 1e3).toLocaleTimeString([], { hour12: false });

/** Milliseconds, with three digits that matter. */
export function ms(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const value = seconds * 1e3;
  return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ms`;
}
