// The settings: which number is known, networks to start from, and every setting of the network in groups.

import { control } from "./knobs/control.js";
import { presets } from "./knobs/presets.js";
import { share } from "./knobs/share.js";
import { tools } from "./knobs/tools.js";
import { OF_WAYS, ways } from "./knobs/ways.js";
import { typed } from "./words.js";

/** Mounts the settings into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export async function mount(root, context) {
  const { api, answers, dom, store } = context;
  const { el, fill } = dom;
  let known;
  try {
    known = await api.get("/api/knobs");
  } catch (error) {
    const again = el("button", { type: "button", onclick: () => mount(root, context) }, "Try again");
    fill(root, el("p", { class: "failed", role: "alert" }, `The settings cannot be shown: ${error.message}`), again);
    addEventListener("airpool-connection", ({ detail }) => detail && again.isConnected && again.click());
    return;
  }

  function change(name, value, { keep }) {
    const more = name === "model" ? { codec: "" } : {};
    store.set({ [name]: value, ...more }, { keep });
  }

  const bar = tools(store);
  const way = ways(known.knobs, store, change);
  const controls = { ...way.controls };
  const start = presets(known.presets ?? [], store);
  const groups = (known.groups ?? []).map((group) => {
    const names = group.knobs.filter((name) => known.knobs[name] && !OF_WAYS.has(name));
    for (const name of names) controls[name] = control(name, known.knobs[name], (value, how) => change(name, value, how));
    const count = el("span", { class: "changed" });
    const made = el("details", { class: "group", open: group.open }, el("summary", {}, group.title, count), names.map((name) => controls[name].root));
    return { names, made, count };
  });
  const wrong = el("p", { class: "failed", role: "alert", hidden: true });
  const close = el("button", { type: "button", class: "close", id: "close-settings" }, "Close");
  fill(root,
    el("div", { class: "head" }, el("h2", { tabindex: -1 }, "Settings"), close),
    wrong,
    way.root,
    bar.root,
    el("details", { class: "group", open: true }, el("summary", {}, "Start from"), start.root),
    groups.filter(({ names }) => names.length).map(({ made }) => made),
    el("details", { class: "group", open: true }, el("summary", {}, "Take it along"), share(context)),
  );

  function update() {
    const { network, leakage, search } = answers.parts;
    const fault = answers.error;
    const named = fault?.field && controls[fault.field] ? fault.field : null;
    for (const [name, each] of Object.entries(controls)) {
      each.update(valueOf(name), sentence(network?.greyed?.[name] ?? ""), named === name ? fault.message : "");
    }
    for (const { names, made, count } of groups) {
      const changed = names.filter((name) => store.get(name)).length;
      count.textContent = changed ? ` ${changed} changed` : "";
      if (named && names.includes(named)) made.open = true;
    }
    wrong.hidden = !fault || named !== null;
    wrong.textContent = wrong.hidden ? "" : fault.message;
    const searching = answers.busy && !answers.told && (search ?? (store.get("way") === "accuracy" && { text: "Searching …" }));
    way.update(network, leakage, searching);
    bar.update();
    start.update();
  }

  function valueOf(name) {
    const set = store.get(name);
    if (set) return set;
    const value = answers.parts.network?.settings?.[name] ?? known.defaults?.[name] ?? controls[name].knob.default ?? "";
    return short(typed(value));
  }

  function codecs() {
    const model = store.get("model") || known.defaults?.model;
    const found = (known.models ?? []).find(({ name }) => name === model) ?? known.models?.[0];
    const named = (codec) => known.knobs.codec?.choices?.find(({ value }) => value === codec) ?? codec;
    if (found?.codecs) controls.codec?.choices?.(found.codecs.map(named));
  }

  codecs();
  store.subscribe((state, before) => {
    if (state.model !== before.model) codecs();
  });
  answers.onState(soon(update));
  store.subscribe(soon(update));
  update();
  drawer(root, close);
}

const sentence = (text) => text && `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** A value that nobody has typed, with few digits: 0.08333 rather than 0.08333333333333333. */
function short(text) {
  return /^-?\d*\.\d{6,}$/.test(text) ? typed(Number(Number(text).toPrecision(4))) : text;
}

/** Calls a function once a frame, however often it is asked for. */
function soon(then) {
  let frame = 0;
  return () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      then();
    });
  };
}

/** On a phone the settings are a drawer, opened by the button that is always in reach. */
function drawer(root, close) {
  const open = document.getElementById("open-settings");
  const put = (shown) => {
    document.body.dataset.settings = shown ? "open" : "closed";
    open.setAttribute("aria-expanded", String(shown));
    (shown ? root.querySelector("h2") : open).focus({ preventScroll: true });
    if (shown) document.getElementById("summary").scrollIntoView({ block: "start" }); // the numbers stay in sight
  };
  open.addEventListener("click", () => put(document.body.dataset.settings !== "open"));
  close.addEventListener("click", () => put(false));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.body.dataset.settings === "open") put(false);
  });
}
