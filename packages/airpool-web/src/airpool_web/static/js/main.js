// Starts the page: theme, state, settings, summary, and one view at a time.

import * as api from "./api.js";
import { Answers } from "./answers.js";
import * as dom from "./dom.js";
import * as knobs from "./knobs.js";
import * as questions from "./questions.js";
import { Store } from "./store.js";
import * as summary from "./summary.js";
import * as theme from "./theme.js";

const VIEWS = ["scene", "numbers", "adversary", "plan", "live"];
const store = new Store();
const answers = new Answers(store);
/** What every view is given. @typedef {{store: Store, answers: Answers, api: typeof api, dom: typeof dom, theme: typeof theme, about: object}} Context */
const context = { store, answers, api, dom, theme, about: {} };
const mounted = new Map();

async function show(name) {
  for (const each of VIEWS) {
    document.getElementById(`panel-${each}`).hidden = each !== name;
    const tab = document.getElementById(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    if (each !== name) mounted.get(each)?.hide?.();
  }
  document.body.dataset.tab = name;
  const root = document.getElementById(`panel-${name}`);
  if (!mounted.has(name)) {
    mounted.set(name, {});
    dom.fill(root, dom.el("p", { class: "loading" }, "Loading …"));
    try {
      const view = await import(`./${name}.js`);
      dom.fill(root);
      mounted.set(name, (await view.mount(root, context)) ?? {});
    } catch (error) {
      mounted.delete(name);
      dom.fill(root, dom.el("p", { class: "failed", role: "alert" }, `This view cannot be shown: ${error.message}`));
    }
  }
  if (document.body.dataset.tab === name) mounted.get(name)?.show?.();
}

function chosen() {
  const name = store.get("tab");
  return VIEWS.includes(name) ? name : context.about.live ? "live" : "scene";
}

function mountTabs() {
  const tabs = document.getElementById("tabs");
  tabs.addEventListener("click", (event) => {
    const name = event.target.closest("[data-tab]")?.dataset.tab;
    if (name) store.set({ tab: name }, { keep: false });
  });
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(chosen()) + step + VIEWS.length) % VIEWS.length];
    store.set({ tab: next }, { keep: false });
    document.getElementById(`tab-${next}`).focus();
    event.preventDefault();
  });
}

/** The address is the state, so that the link to the content must not change it. */
function mountSkip() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
}

/** The introduction goes for good when it is dismissed. */
function mountIntro() {
  document.getElementById("intro-done").addEventListener("click", () => {
    document.documentElement.dataset.intro = "done";
    document.getElementById("main").focus();
    try {
      localStorage.setItem("airpool-intro", "done");
    } catch {
      // It is shown again next time.
    }
  });
}

addEventListener("airpool-connection", ({ detail: connected }) => {
  dom.notice(connected ? "" : "The page has lost its server. It tries again by itself.", "lost");
  if (!connected) retry();
});

function retry() {
  setTimeout(async () => {
    try {
      await api.get("/api/about");
      answers.ask({ again: true });
    } catch {
      retry();
    }
  }, 1_000);
}

async function start() {
  theme.mount(document.getElementById("theme"));
  mountTabs();
  mountSkip();
  mountIntro();
  summary.mount(document.getElementById("summary"), context);
  questions.mount(document.getElementById("questions"), context);
  try {
    context.about = await api.get("/api/about");
  } catch (error) {
    dom.notice(error.message, "lost");
  }
  store.subscribe((state, before) => {
    if (state.tab !== before.tab) show(chosen());
  });
  show(chosen());
  knobs.mount(document.getElementById("knobs"), context);
  answers.ask();
}

start();
