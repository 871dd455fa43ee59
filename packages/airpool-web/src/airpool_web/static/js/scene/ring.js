// The stage without WebGL: the same devices around the object, seen from above, in SVG.

import { svg } from "../dom.js";

const SIZE = 400;
const MIDDLE = SIZE / 2;
const TIP = { x: SIZE - 26, y: 30 };

/** A drawing that offers what the stage does, without motion. */
export function makeRing(holder) {
  const drawing = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "ring", "aria-hidden": "true" });
  holder.replaceChildren(drawing);
  let shown = { azimuths: [], devices: null, lit: null, picture: null };

  function draw() {
    const { azimuths, devices, lit, picture } = shown;
    const places = azimuths.map((azimuth, k) => {
      const a = (azimuth * Math.PI) / 180;
      const far = 140 + 14 * azimuths.slice(0, k).filter((other) => other === azimuth).length;
      return { x: MIDDLE + Math.sin(a) * far, y: MIDDLE + Math.cos(a) * far };
    });
    const state = (k) => devices?.[k]?.state ?? "idle";
    drawing.replaceChildren(
      svg("circle", { cx: MIDDLE, cy: MIDDLE, r: 140, class: "ring-floor" }),
      ...places.flatMap((place, k) =>
        devices?.[k]?.on_the_air
          ? [svg("line", { x1: place.x, y1: place.y, x2: TIP.x, y2: TIP.y, class: `ring-way ${state(k)}` })]
          : [],
      ),
      svg("rect", { x: MIDDLE - 60, y: MIDDLE - 60, width: 120, height: 120, rx: 8, class: "ring-object" }),
      ...(picture ? [svg("image", { href: picture, x: MIDDLE - 56, y: MIDDLE - 56, width: 112, height: 112 })] : []),
      ...places.map((place, k) =>
        svg(
          "g",
          { class: `ring-device ${state(k)}${k === lit ? " lit" : ""}`, transform: `translate(${place.x} ${place.y})` },
          svg("circle", { r: 13 }),
          svg("text", { dy: "0.35em" }, String(k)),
        ),
      ),
      svg("path", { d: `M${TIP.x} ${TIP.y + 46}V${TIP.y}m-14 6 14-6 14 6m-22 8h16`, class: "ring-mast" }),
    );
  }

  const set = (change) => {
    shown = { ...shown, ...change };
    draw();
  };
  draw();
  return {
    setObject: (mesh, picture = null) => set({ picture }),
    setPlaces: (azimuths) => set({ azimuths, devices: null }),
    setDevices: (devices) => set({ devices }),
    fly: () => Promise.resolve(),
    highlight: (lit) => set({ lit }),
    pause() {},
    resume() {},
  };
}
