// Choosing the object: one of a grouped list, or a mesh of one's own, by a button or dropped onto the page.

import { el, fill } from "../dom.js";
import { named } from "./words.js";

export const ENDINGS = ".off,.obj,.stl,.ply";
const MOST_BYTES = 8 * 2 ** 20;

/** Why a file is not even sent, or null. */
export function refusal(file) {
  if (!ENDINGS.split(",").some((ending) => file.name.toLowerCase().endsWith(ending))) {
    return `${file.name} is no mesh that can be shown: its name must end in ${ENDINGS.replaceAll(",", ", ")}.`;
  }
  if (file.size > MOST_BYTES) return `${file.name} has ${(file.size / 2 ** 20).toFixed(1)} MB; at most 8 MB are allowed.`;
  return null;
}

/**
 * @param {{choose: (name: string) => void, give: (file: File) => void, zone: HTMLElement}} calls
 */
export function makePicker({ choose, give, zone }) {
  const list = el("select", { id: "scene-object", onchange: () => choose(list.value) });
  const input = el("input", {
    type: "file",
    id: "scene-file",
    class: "hidden",
    accept: ENDINGS,
    tabindex: "-1",
    "aria-label": "Mesh of your own: OFF, OBJ, STL or PLY, at most 8 MB",
    onchange: () => {
      if (input.files.length) give(input.files[0]);
      input.value = "";
    },
  });
  const own = el("button", { type: "button", onclick: () => input.click(), title: "OFF, OBJ, STL or PLY, at most 8 MB; or drop it here" }, "Your own mesh …");
  let depth = 0;
  const over = (change) => {
    depth = Math.max(0, depth + change);
    zone.dataset.drop = String(depth > 0);
  };
  zone.addEventListener("dragenter", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    over(1);
  });
  zone.addEventListener("dragleave", () => over(-1));
  zone.addEventListener("dragover", (event) => event.preventDefault());
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    over(-depth);
    if (event.dataTransfer.files.length) give(event.dataTransfer.files[0]);
  });
  let kept = new Map();

  function group(shapes) {
    const groups = new Map();
    for (const { name, label } of shapes) groups.set(label, [...(groups.get(label) ?? []), name]);
    return [...groups].map(([label, names]) => el("optgroup", { label: named(label) },
      names.map((name) => el("option", { value: name }, named(name)))));
  }

  return {
    parts: [el("label", { for: "scene-object" }, "Object"), list, own, input],
    /** What can be chosen. own: whether a mesh of one's own can be. */
    fill(shapes, { canOwn }) {
      own.disabled = !canOwn;
      const mine = el("optgroup", { label: "your own", hidden: true });
      fill(list, mine, group(shapes));
      this.keep();
    },
    /** A mesh of one's own joins the list. */
    keep(name, title) {
      if (name) kept.set(name, title);
      const mine = list.querySelector("optgroup");
      if (!mine) return;
      mine.hidden = kept.size === 0;
      fill(mine, [...kept].map(([value, text]) => el("option", { value }, text)));
    },
    forget(name) {
      kept.delete(name);
      this.keep();
    },
    select(name) {
      list.value = name;
    },
    busy(is) {
      list.disabled = is;
      own.setAttribute("aria-busy", String(is));
    },
  };
}
