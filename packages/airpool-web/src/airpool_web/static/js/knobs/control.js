// One setting: label, symbol, unit, its control, what it means, why it does not apply, and what is wrong with it.

import { el, fill } from "../dom.js";
import { plain, typed } from "../words.js";
import { POSITIONS, scaleOf } from "./scale.js";

const ON = new Set(["true", "on", "yes", "1"]);

/**
 * A control for one knob.
 * @param {string} name @param {object} knob As in /api/knobs.
 * @param {(value: string, how: {keep: boolean}) => void} then Called with every change; keep is false while it moves.
 * @returns {{root: HTMLElement, knob: object, update: (value: string, reason?: string, error?: string) => void, choices?: (list: any[]) => void}}
 */
export function control(name, knob, then) {
  const id = `knob-${name}`;
  const reason = el("p", { class: "reason", id: `${id}-reason`, hidden: true });
  const error = el("p", { class: "wrong", id: `${id}-error`, role: "alert", hidden: true });
  const help = knob.help ? el("p", { class: "help", id: `${id}-help` }, knob.help) : null;
  const described = [help && `${id}-help`, `${id}-reason`, `${id}-error`].filter(Boolean).join(" ");
  const made = MAKERS[knob.kind === "whole" ? "number" : knob.kind]?.(id, knob, change, described) ?? text(id, knob, change, described);
  const root = el("div", { class: `knob knob-${knob.kind}`, "data-knob": name }, made.parts, reason, error, help);
  let shown = {};

  function change(value, how) {
    then(value, how);
    if (value === "" && shown.value !== undefined) made.show(shown.value); // the default again, which may be what it was
  }

  function update(value, why = "", wrong = "") {
    if (value !== shown.value) made.show(value);
    if (why !== shown.why) {
      for (const input of made.inputs) input.disabled = Boolean(why);
      root.classList.toggle("greyed", Boolean(why));
      reason.hidden = !why;
      reason.textContent = why;
    }
    if (wrong !== shown.wrong) {
      for (const input of made.inputs) {
        if (wrong) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      }
      error.hidden = !wrong;
      error.textContent = wrong;
    }
    shown = { value, why, wrong };
  }

  return { root, update, knob, choices: made.choices };
}

function title(knob) {
  const unit = knob.unit ? el("span", { class: "unit" }, ` in ${knob.unit}`) : null;
  return [knob.label, knob.symbol ? [" ", el("span", { class: "symbol" }, knob.symbol)] : null, unit];
}

const MAKERS = {
  number(id, knob, change, described) {
    if (!Number.isFinite(knob.min) || !Number.isFinite(knob.max)) return text(id, knob, change, described);
    const scale = scaleOf(knob);
    const ends = [knob.low_text || plain(knob.min), knob.high_text || plain(knob.max)];
    const words = (value) => `${knob.symbol ? `${knob.symbol} = ` : ""}${plain(value)}${knob.unit ? ` ${knob.unit}` : ""}`;
    const slider = el("input", { type: "range", id: `${id}-slider`, min: 0, max: POSITIONS, step: 1, "aria-label": `${knob.label}, slider`,
      "aria-describedby": described, "data-private": knob.private_end });
    const field = el("input", { type: "text", id, inputmode: "decimal", autocomplete: "off", spellcheck: "false", "aria-describedby": described });
    let frame = 0;
    const move = (keep) => {
      cancelAnimationFrame(frame);
      const value = scale.value(Number(slider.value));
      const then = () => {
        field.value = typed(value);
        slider.setAttribute("aria-valuetext", words(value));
        change(typed(value), { keep });
      };
      if (keep) then();
      else frame = requestAnimationFrame(then);
    };
    slider.addEventListener("input", () => move(false));
    slider.addEventListener("change", () => move(true));
    field.addEventListener("change", () => change(field.value.trim(), { keep: true }));
    field.addEventListener("keydown", (event) => {
      const direction = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      const now = Number(field.value);
      if (!direction || field.value.trim() === "" || !Number.isFinite(now)) return;
      event.preventDefault();
      field.value = typed(scale.next(now, direction));
      change(field.value, { keep: true });
    });
    const show = (value) => {
      const x = Number(value);
      const known = value !== "" && Number.isFinite(x);
      if (field.value !== value) field.value = value;
      const position = known ? scale.position(x) : 0;
      if (scale.value(Number(slider.value)) !== x) slider.value = String(position);
      slider.setAttribute("aria-valuetext", known ? words(x) : value || "default");
    };
    return {
      inputs: [field, slider],
      parts: [
        el("label", { for: id }, title(knob)),
        el("div", { class: "pair" }, slider, field),
        el("div", { class: "ends", "aria-hidden": knob.low_text ? null : "true" }, el("span", {}, ends[0]), el("span", {}, ends[1])),
      ],
      show,
    };
  },

  choice(id, knob, change, described) {
    const told = el("p", { class: "help chosen", id: `${id}-chosen` });
    const select = el("select", { id, "aria-describedby": `${id}-chosen ${described}` });
    let options = [];
    const known = (value) => options.find((each) => String(each.value) === value);
    const say = (value) => {
      told.textContent = known(value)?.help ?? "";
      told.hidden = !told.textContent;
    };
    const choices = (list) => {
      const now = select.value;
      options = list.map((each) => (typeof each === "string" ? { value: each } : each));
      fill(select, options.map((each) => el("option", { value: each.value }, each.label ?? each.value)));
      if (now) show(now);
    };
    const show = (value) => {
      // A value that is no choice (from the address) is shown as it is; the server says what is wrong with it.
      let odd = select.querySelector("option[data-odd]");
      if (!known(value)) {
        odd ??= select.appendChild(el("option", { "data-odd": true }));
        odd.value = odd.textContent = value;
      } else odd?.remove();
      select.value = value;
      say(value);
    };
    select.addEventListener("change", () => {
      say(select.value);
      change(select.value, { keep: true });
    });
    choices(knob.choices ?? []);
    return { inputs: [select], parts: [el("label", { for: id }, title(knob)), select, told], show, choices };
  },

  switch(id, knob, change, described) {
    const box = el("input", { type: "checkbox", id, role: "switch", "aria-describedby": described });
    box.addEventListener("change", () => change(box.checked ? "true" : "false", { keep: true }));
    const show = (value) => {
      box.checked = ON.has(String(value).toLowerCase());
    };
    return { inputs: [box], parts: [el("label", { for: id, class: "switch" }, box, " ", title(knob))], show };
  },
};

function text(id, knob, change, described) {
  const field = el("input", { type: "text", id, autocomplete: "off", spellcheck: "false", class: "wide", "aria-describedby": described });
  field.addEventListener("change", () => change(field.value.trim(), { keep: true }));
  const show = (value) => {
    if (field.value !== value) field.value = value;
  };
  return { inputs: [field], parts: [el("label", { for: id }, title(knob)), field], show };
}
