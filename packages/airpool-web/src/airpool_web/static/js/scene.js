// The scene: an object, the devices around it, one inference or many. Everything shown is computed by the server's
// airpool.infer with the seed in the address; this module asks for it and has it drawn.

import { makeAnswer, makePrivacy, makeTrials } from "./scene/answer.js";
import { makePicker, refusal } from "./scene/picker.js";
import { makeRing } from "./scene/ring.js";
import { calm, makeStage } from "./scene/stage.js";
import { makeSum } from "./scene/sum.js";
import { makeThumbnails } from "./scene/thumbnails.js";
import { answered, described, named, onTheAir } from "./scene/words.js";

const TRIALS = 200;
const SETTLE_MS = 250;
const FIRST = "chair_0";

/** Mounts the view into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export async function mount(root, { store, api, dom, theme }) {
  const { el } = dom;
  const canvas = el("canvas", { class: "stage", tabindex: "0", role: "img", "aria-describedby": "stage-help" });
  const holder = el("div", { class: "stage-holder" }, canvas);
  let picture = canvas; // the drawing that has the text alternative
  const state = el("p", { class: "stage-state", role: "status" }, "Loading …");
  const trouble = el("p", { class: "failed scene-failed", role: "alert", hidden: true });
  const spoken = el("p", { class: "hidden", "aria-live": "polite" });
  const infer = el("button", { type: "button", class: "main", id: "scene-infer", onclick: () => run() }, "Infer");
  const again = el("button", { type: "button", id: "scene-again", onclick: () => runAgain() }, "Again");
  const many = el("button", { type: "button", id: "scene-trials", onclick: () => runMany() }, `${TRIALS} trials`);
  const seed = el("input", { type: "number", id: "scene-seed", min: 0, step: 1, onchange: () => reseed() });
  let stage = null;
  const thumbnails = makeThumbnails((k) => stage?.highlight(k));
  const [answer, sum, privacy, trials] = [makeAnswer(), makeSum(), makePrivacy(), makeTrials()];
  const picker = makePicker({ choose: (name) => store.set({ object: name }), give: (file) => give(file), zone: root });
  const help = el("p", { class: "soft stage-help", id: "stage-help" }, "Drag, or use the arrow keys, + and −, to turn and zoom.");
  dom.fill(root,
    el("div", { class: "scene-tools" }, picker.parts,
      el("label", { for: "scene-seed" }, "Seed"), seed,
      el("span", { class: "scene-buttons" }, infer, again, many)),
    trouble,
    el("div", { class: "scene-top" }, el("div", { class: "stage-card" }, holder, state, help), answer.root),
    thumbnails.root,
    el("div", { class: "scene-pair" }, sum.root, el("div", { class: "scene-column" }, privacy.root, trials.root)),
    spoken);

  let listed = null; // what can be chosen, and for which model and codec
  let looked = null; // key of the views that are shown
  let result = null;
  let title = "The object";
  let asking = null;
  let settling = 0;
  let follows = false; // whether a change of settings is followed by an inference: once there was one of this object
  let lost = false; // whether the server was lost since
  let pressed = null; // the button that had the focus before it was disabled
  let drawn = 0; // number of the newest picture: older ones are not shown any more

  for (const each of [answer, sum, privacy, trials]) each.clear();

  const object = () => store.get("object") || (listed?.shapes.some((each) => each.name === FIRST) ? FIRST : listed?.shapes[0]?.name);
  const seedNow = () => (/^\d{1,15}$/.test(store.get("seed")) ? Number(store.get("seed")) : 0);
  const asked = (more = {}) => ({ ...store.settings, object: object(), ...more });

  function fail(error) {
    if (error?.name === "AbortError") return;
    trouble.textContent = error ? error.message : "";
    trouble.hidden = !error;
    if (error) state.textContent = "";
  }

  function busy(is, text = "") {
    root.setAttribute("aria-busy", String(is));
    const buttons = [infer, again, many];
    if (is && buttons.includes(document.activeElement)) pressed = document.activeElement;
    for (const each of buttons) each.disabled = is;
    if (!is && document.activeElement === document.body) pressed?.focus({ preventScroll: true }); // a disabled button loses the focus
    if (!is) pressed = null;
    state.textContent = text;
  }

  function describe() {
    picture.setAttribute("aria-label", described(title, thumbnails.root.querySelectorAll(".view").length, result));
  }

  async function list() {
    const query = new URLSearchParams();
    for (const name of ["model", "codec"]) if (store.get(name)) query.set(name, store.get(name));
    const key = query.toString();
    if (listed?.key === key) return;
    listed = { key, ...(await api.get(`/api/shapes?${query}`)) };
    picker.fill(listed.shapes, { canOwn: listed.kind === "shapes" });
  }

  /** Shows the object and the views of the settings in the address. */
  async function look() {
    const mine = ++drawn;
    await list();
    const known = listed.shapes.some((each) => each.name === object());
    if (!known && !(listed.kind === "shapes" && object().startsWith("own-"))) store.set({ object: null }, { keep: false });
    const name = object();
    const key = [name, store.get("devices"), listed.key].join(" ");
    picker.select(name);
    seed.value = String(seedNow());
    if (key === looked) return;
    busy(true, "Looking …");
    const wanted = listed.kind === "shapes" ? api.get(`/api/shape/${encodeURIComponent(name)}`) : null;
    const [mesh, seen] = await Promise.all([wanted, api.post("/api/views", asked())]).catch((error) => {
      if (name.startsWith("own-")) picker.forget(name);
      if (mine === drawn) busy(false);
      throw error;
    });
    if (mine !== drawn) return;
    looked = key;
    result = null;
    title = mesh ? named(mesh.title) : `Sample ${name.replace("sample_", "")} (${named(seen.truth)})`;
    if (mesh && name.startsWith("own-")) picker.keep(name, mesh.title);
    picker.select(name);
    stage.setObject(mesh, seen.views[0]);
    stage.setPlaces(seen.azimuths, seen.elevation);
    thumbnails.setViews(seen.views, seen.devices, [listed.note, seen.note].filter(Boolean).join(" "));
    for (const each of [answer, sum, privacy, trials]) each.clear();
    busy(false);
    fail(null);
    describe();
  }

  /** The same where nothing else is asked for: a fault stays as long as it is one. */
  const refresh = () => look().then(() => fail(null), fail);

  /** One inference of what is shown. quiet: without the flight, as when a setting has changed. */
  async function run({ quiet = false } = {}) {
    asking?.abort();
    const own = (asking = new AbortController());
    clearTimeout(settling);
    if (!quiet) busy(true, "Computing …");
    try {
      await look();
      const found = await api.post("/api/infer", asked({ seed: seedNow() }), own.signal);
      const mine = drawn;
      fail(null);
      stage.setDevices(found.devices);
      thumbnails.setDevices(found.devices);
      if (!quiet) {
        state.textContent = "The features travel …";
        holder.parentElement.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
        await stage.fly();
        if (mine !== drawn || own.signal.aborted) return;
      }
      result = found;
      follows = true;
      answer.show(found);
      sum.show(found);
      privacy.show(found);
      spoken.textContent = quiet ? "" : `${answered(found)} ${onTheAir(found.devices)}.`;
      describe();
    } catch (error) {
      fail(error);
    } finally {
      if (asking === own) {
        asking = null;
        busy(false);
      }
    }
  }

  function runAgain() {
    store.set({ seed: String((seedNow() + 1) % 10 ** 15) }, { keep: false });
    seed.value = String(seedNow());
    return run();
  }

  async function runMany() {
    busy(true, `${TRIALS} inferences …`);
    try {
      await look();
      const found = await api.post("/api/infer", asked({ seed: seedNow(), trials: TRIALS }));
      trials.show(found);
      const [most] = found.frequency;
      spoken.textContent = `In ${TRIALS} trials the answer is most often ${named(most.label)}: ${most.count} times.`;
      fail(null);
    } catch (error) {
      fail(error);
    } finally {
      busy(false);
    }
  }

  function reseed() {
    store.set({ seed: /^\d{1,15}$/.test(seed.value) ? seed.value : null }, { keep: false });
    seed.value = String(seedNow());
    if (result) run();
  }

  async function give(file) {
    const why = refusal(file);
    if (why) {
      fail(new Error(why));
      return;
    }
    if (listed?.kind !== "shapes") {
      fail(new Error(listed?.note ?? "A mesh can be shown once the scene is there."));
      return;
    }
    fail(null);
    busy(true, `Reading ${file.name} …`);
    picker.busy(true);
    try {
      const found = await api.upload("/api/mesh", file);
      picker.keep(found.object, found.name);
      fail(null);
      store.set({ object: found.object });
    } catch (error) {
      fail(error);
    } finally {
      picker.busy(false);
      busy(false);
    }
  }

  async function open() {
    try {
      stage = await makeStage(canvas, theme);
    } catch {
      help.textContent = "This browser shows no 3-D: the devices are drawn from above.";
      stage = makeRing(holder);
      picture = holder;
      holder.setAttribute("role", "img");
    }
    await refresh();
  }

  store.subscribe((now, before) => {
    const changed = Object.keys({ ...now, ...before }).filter((name) => now[name] !== before[name] && name !== "tab");
    if (!changed.length || !stage) return;
    if (changed.every((name) => name === "seed")) return;
    if (result) answer.old(true);
    trials.old();
    clearTimeout(settling);
    if (changed.includes("object")) follows = false;
    settling = setTimeout(() => (follows ? run({ quiet: true }) : refresh()), SETTLE_MS);
  });
  addEventListener("airpool-connection", (event) => {
    if (event.detail && lost) refresh();
    lost = !event.detail;
  });
  await open();
  return { show: () => stage.resume(), hide: () => stage.pause() };
}
