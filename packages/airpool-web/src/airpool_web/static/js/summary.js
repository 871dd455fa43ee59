// The summary above every view: ε of the worst device and what stands beside it, the odds, the accuracy, and one
// sentence of what is protected and what is not. Old numbers stay until the new ones are there.

import { el } from "./dom.js";
import { accuracy as shown, epsilon, plain } from "./words.js";

/** Mounts the strip into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export function mount(root, { answers, dom }) {
  const worst = figure("ε of the worst device", "privacy parameter", "worst");
  const predicted = figure("Predicted accuracy", "", "predicted");
  const beside = {
    local: row("local ε", "nobody else is trusted"),
    object: row("object ε", "the object itself: all views at once"),
    paper: row("paper's claim", "Theorem 1; not a valid bound"),
  };
  const odds = el("p", {});
  const protects = el("p", {});
  const not = el("p", {});
  const state = el("p", { class: "state" });
  const heard = el("p", { class: "hidden", role: "status" }); // said once, when all is there
  dom.fill(root,
    el("div", { class: "strip" },
      worst.root,
      el("dl", { class: "beside" }, Object.values(beside).map(({ root: each }) => each)),
      predicted.root,
      el("div", { class: "words" }, odds, protects, not)),
    state, heard);

  const put = (place, text, value) => {
    if (place.textContent !== text) place.textContent = text;
    if (value !== undefined) place.dataset.value = value;
  };
  // "Not protected: the class." in bold up to where its first words end.
  const sentence = (place, text = "") => {
    const [head] = text.match(/^(Not protected|Weakly protected|Protected)/) ?? [""];
    if (place.textContent !== text) dom.fill(place, el("strong", {}, head), text.slice(head.length));
  };

  answers.on("leakage", (found) => {
    put(worst.value, epsilon(found.epsilon), found.epsilon);
    put(worst.note, `privacy parameter, at δ\u00a0=\u00a0${plain(found.delta)}`);
    put(beside.local.value, epsilon(found.epsilon_local), found.epsilon_local);
    put(beside.object.value, epsilon(found.epsilon_object), found.epsilon_object);
    put(beside.paper.value, epsilon(found.paper?.epsilon), found.paper?.epsilon ?? "");
    put(odds, found.odds?.sentences?.[0] ?? "");
    sentence(protects, found.protects);
    sentence(not, found.does_not);
  });
  answers.on("accuracy", (found) => {
    put(predicted.value, shown(found.mean), found.mean);
    put(predicted.note, found.mean === null || found.mean === undefined ? (found.note ?? "") : `95 % interval of the accuracy: ${shown(found.low)}\u00a0to\u00a0${shown(found.high)}`);
  });
  answers.onState(({ busy, pending, parts, error }) => {
    const late = (part) => busy && (pending.has(part) || !parts[part]);
    root.setAttribute("aria-busy", String(late("leakage")));
    worst.root.classList.toggle("stale", late("leakage"));
    predicted.root.classList.toggle("stale", late("accuracy") || (busy && parts.accuracy.trials < parts.network?.trials)); // more trials follow
    root.classList.toggle("wrong", Boolean(error));
    const text = said(error, late, parts);
    put(state, text);
    state.classList.toggle("late", !error && text !== "");
    if (error) put(heard, text);
    else if (!busy && parts.leakage) put(heard, `ε = ${epsilon(parts.leakage.epsilon)}, predicted accuracy ${shown(parts.accuracy?.mean)}`);
  });
}

function said(error, late, parts) {
  if (error) return `${error.message}${parts.leakage ? " The numbers above are of the last setting that worked." : ""}`;
  if (late("leakage")) return parts.search?.text ?? (parts.waiting ? "Waiting for another computation …" : "Computing …");
  if (late("accuracy")) return "Simulating the accuracy …";
  return "";
}

function figure(title, note, name) {
  const value = el("p", { class: "value", id: `summary-${name}` }, "…");
  const told = el("p", { class: "note" }, note);
  return { root: el("div", { class: `big ${name}` }, el("p", { class: "title" }, title), value, told), value, note: told };
}

function row(title, note) {
  const value = el("dd", { class: "value" }, "…");
  const kind = title.startsWith("paper") ? "paper" : null;
  const root = el("div", { class: kind }, el("dt", { class: "title" }, title), value, el("dd", { class: "note" }, note));
  return { root, value };
}
