// The adversary: what it paints of a view, what it may guess at most, and an attack that is played live.

import { mountBounds } from "./adversary/bounds.js";
import { mountGame } from "./adversary/game.js";
import { mountPictures } from "./adversary/pictures.js";

/** Mounts the view into root. @param {HTMLElement} root @param {import("./main.js").Context} context */
export function mount(root, context) {
  const { el, fill } = context.dom;
  const pictures = el("section", { "aria-labelledby": "pictures-title" });
  const bounds = el("section", { "aria-labelledby": "bounds-title" });
  const game = el("section", { "aria-labelledby": "game-title" });
  fill(
    root,
    el("p", { class: "lead" }, "An attacker here knows everything but the noise and the secret: the network, its settings, the codec, which camera it " +
      "listens to. What it hears comes from the code that transmits, with the settings of this page."),
    pictures, bounds, game,
  );
  const views = [mountPictures(pictures, context), mountBounds(bounds, context), mountGame(game, context)];
  return { show: () => views.forEach((view) => view.show?.()), hide: () => views.forEach((view) => view.hide?.()) };
}
