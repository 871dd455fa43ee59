// Turns a camera around the middle: by drag, by keys. A vertical swipe on a touch screen still scrolls the page.

const HOME = { turn: -0.36, tilt: 0.45, distance: 8.9 };
const TILT = [0.06, 1.35];
const DISTANCE = [4.5, 14];
const KEYS = {
  ArrowLeft: { turn: -0.15 },
  ArrowRight: { turn: 0.15 },
  ArrowUp: { tilt: 0.1 },
  ArrowDown: { tilt: -0.1 },
  "+": { distance: 0.9 },
  "=": { distance: 0.9 },
  "-": { distance: 1 / 0.9 },
};

const within = (value, [least, most]) => Math.min(most, Math.max(least, value));

/**
 * Lets a canvas turn a camera; calls `changed()` after every move.
 * @returns {{place: (aspect: number) => void}} place: puts the camera where it belongs in a window of this aspect.
 */
export function orbit(canvas, camera, changed) {
  const at = { ...HOME };
  let aspect = 1;
  let held = null;

  function place(wanted = aspect) {
    aspect = wanted;
    // A narrow window needs more distance for the same ring.
    const distance = at.distance * Math.max(1, 1.45 / aspect);
    const flat = Math.cos(at.tilt) * distance;
    camera.position.set(Math.sin(at.turn) * flat, Math.sin(at.tilt) * distance, Math.cos(at.turn) * flat);
    camera.lookAt(0.15, 0.4, 0);
  }

  function move({ turn = 0, tilt = 0, distance = 1 }) {
    at.turn += turn;
    at.tilt = within(at.tilt + tilt, TILT);
    at.distance = within(at.distance * distance, DISTANCE);
    place();
    changed();
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    held = { x: event.clientX, y: event.clientY };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    move({ turn: (held.x - event.clientX) * 0.008, tilt: (event.clientY - held.y) * 0.006 });
    held = { x: event.clientX, y: event.clientY };
  });
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) {
    canvas.addEventListener(name, () => {
      held = null;
    });
  }
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Home") Object.assign(at, HOME);
    else if (!KEYS[event.key]) return;
    move(KEYS[event.key] ?? {});
    event.preventDefault();
  });
  return { place };
}
