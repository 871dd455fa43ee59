// The stage in three dimensions. It paints when something has changed, and while something moves; never otherwise.

import * as bodies from "./bodies.js";
import { arcs, flight } from "./flight.js";
import { orbit } from "./orbit.js";

/** Whether whoever looks wants no motion. */
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function palette(theme) {
  const dark = theme.current() === "dark";
  const tone = (name) => theme.colour(name);
  return {
    ours: tone("--ours"),
    ink: tone("--ink"),
    soft: tone("--soft"),
    page: tone("--raised"),
    line: tone("--line"),
    object: dark ? "#b9c0cb" : "#dfe3e9",
    edge: dark ? "#20242a" : "#5f6772",
    idle: dark ? "#8d95a1" : "#7a828e",
    silent: dark ? "#3f464f" : "#b4bac3",
    stand: dark ? "#565e69" : "#cfd4db",
    mast: dark ? "#9aa2ae" : "#6c747f",
  };
}

/** Makes the stage on a canvas; throws where there is no WebGL. @param {typeof import("./../theme.js")} theme */
export async function makeStage(canvas, theme) {
  const THREE = await import("../../vendor/three.module.min.js");
  const context = canvas.getContext("webgl2", { alpha: true, antialias: true, powerPreference: "low-power" });
  if (!context) throw new Error("This browser has no WebGL.");
  const renderer = new THREE.WebGLRenderer({ canvas, context });
  renderer.setClearAlpha(0);
  const camera = new THREE.PerspectiveCamera(34, 1, 0.1, 60);
  const scene = new THREE.Scene();
  let colours = palette(theme);
  let shown = { mesh: null, azimuths: [], elevation: 30, devices: null, lit: null };
  let parts = {};
  let flying = null;
  let frame = 0;
  let paused = false;

  function paint(now) {
    frame = 0;
    if (flying && !flying.step(now, camera)) land();
    renderer.render(scene, camera);
    if (flying) invalidate();
  }

  function invalidate() {
    if (!frame && !paused) frame = requestAnimationFrame(paint);
  }

  const turned = orbit(canvas, camera, invalidate);

  function land() {
    flying.finish();
    drop(flying.group);
    flying = null;
  }

  function drop(group) {
    if (!group) return;
    scene.remove(group);
    group.traverse((each) => {
      each.geometry?.dispose();
      each.material?.map?.dispose();
      each.material?.dispose();
    });
  }

  function replace(name, group) {
    drop(parts[name]);
    parts[name] = group;
    if (group) scene.add(group);
  }

  function dress() {
    const { azimuths, devices, lit } = shown;
    parts.eyes?.children.forEach((eye, k) => {
      const { body, frustum, label } = eye.userData;
      const state = devices?.[k]?.state ?? "idle";
      const tone = { sends: colours.ours, weak: colours.ours, noise: colours.idle, silent: colours.silent, idle: colours.idle };
      body.color.set(k === lit ? colours.ink : tone[state]);
      const dashed = state === "silent" || state === "noise";
      frustum.material.dispose();
      const look = { color: k === lit ? colours.ink : tone[state], transparent: true, opacity: k === lit ? 1 : 0.75 };
      frustum.material = dashed
        ? new THREE.LineDashedMaterial({ ...look, dashSize: 0.07, gapSize: 0.06 })
        : new THREE.LineBasicMaterial(look);
      label.material.map?.dispose();
      label.material.map = bodies.badge(THREE, eye.userData.number, state, colours, k === lit);
      label.material.needsUpdate = true;
      label.scale.setScalar((azimuths.length > 24 ? 0.24 : 0.34) * (k === lit ? 1.35 : 1));
    });
    invalidate();
  }

  function light() {
    const dark = theme.current() === "dark";
    const group = new THREE.Group();
    group.add(new THREE.HemisphereLight("#ffffff", dark ? "#4a515c" : "#aab2be", dark ? 1.5 : 1.9));
    const sun = new THREE.DirectionalLight("#ffffff", dark ? 1.9 : 1.7);
    sun.position.set(-3, 6, 5);
    group.add(sun);
    replace("light", group);
  }

  function build() {
    if (flying) land();
    light();
    replace("ground", bodies.ground(THREE, colours));
    replace("mast", bodies.mast(THREE, colours));
    const { devices } = shown;
    setObject(shown.mesh);
    setPlaces(shown.azimuths, shown.elevation);
    setDevices(devices);
  }

  function setObject(mesh) {
    shown.mesh = mesh;
    replace("thing", mesh === undefined ? null : bodies.thing(THREE, mesh, colours));
    invalidate();
  }

  function setPlaces(azimuths, elevation) {
    shown = { ...shown, azimuths, elevation, devices: null };
    replace("arcs", null);
    const group = new THREE.Group();
    const floors = new Map();
    azimuths.forEach((azimuth, k) => {
      const floor = floors.get(azimuth) ?? 0;
      floors.set(azimuth, floor + 1);
      group.add(bodies.eye(THREE, bodies.station(THREE, azimuth, elevation, floor), String(k), colours));
    });
    replace("eyes", group);
    setDevices(null);
  }

  /** What each device did; null: nothing yet. */
  function setDevices(devices) {
    if (flying) land();
    shown.devices = devices;
    const bulb = parts.mast.userData.light;
    bulb.material.emissiveIntensity = devices?.some((each) => each.on_the_air) ? 1.6 : 0;
    bulb.scale.setScalar(devices ? 1.5 : 1);
    replace("arcs", devices && arcs(THREE, parts.eyes.children, devices, colours));
    dress();
  }

  /** Sends what the devices send; resolves when it has arrived. */
  function fly() {
    if (calm() || paused || document.hidden) return Promise.resolve();
    if (flying) land();
    flying = flight(THREE, parts.arcs, parts.mast.userData.light, colours);
    scene.add(flying.group);
    invalidate();
    return flying.done;
  }

  function fit() {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    renderer.setSize(width, height, false);
    camera.aspect = width / height;
    camera.updateProjectionMatrix();
    turned.place(camera.aspect);
    invalidate();
  }

  new ResizeObserver(fit).observe(canvas);
  theme.onChange(() => {
    colours = palette(theme);
    build();
  });
  canvas.addEventListener("webglcontextrestored", invalidate);
  build();
  fit();
  return {
    setObject,
    setPlaces,
    setDevices,
    fly,
    highlight(k) {
      shown.lit = k;
      dress();
    },
    pause() {
      paused = true;
      if (flying) land();
    },
    resume() {
      paused = false;
      fit();
    },
  };
}
