// Features on their way: an arc from each device on the air to the antenna, and pulses along it that merge there.

import { antennaTip } from "./bodies.js";

const PULSES = 7;
const TRAVEL_MS = 1_050;
const SPREAD_MS = 520;
const RIPPLE_MS = 700;

const eased = (t) => (t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2);

/** Arcs of the devices on the air. state: noise is thin and grey, since it carries nothing of what is seen. */
export function arcs(THREE, eyes, devices, palette) {
  const group = new THREE.Group();
  const tip = antennaTip(THREE);
  group.userData.curves = [];
  for (const device of devices) {
    if (!device.on_the_air) continue;
    const from = eyes[device.device].userData.place;
    const middle = from.clone().lerp(tip, 0.5);
    middle.y += 0.75 + from.distanceTo(tip) * 0.17;
    const curve = new THREE.QuadraticBezierCurve3(from, middle, tip);
    const carries = device.state !== "noise";
    const colour = carries ? palette.ours : palette.soft;
    const material = new THREE.MeshBasicMaterial({ color: colour, transparent: true, opacity: carries ? 0.42 : 0.25 });
    group.add(new THREE.Mesh(new THREE.TubeGeometry(curve, 48, device.state === "sends" ? 0.014 : 0.007, 6), material));
    group.userData.curves.push({ curve, carries });
  }
  return group;
}

/**
 * One flight along these arcs. `step(now)` moves it and says whether it goes on.
 * @returns {{group: object, step: (now: number) => boolean, done: Promise<void>, finish: () => void}}
 */
export function flight(THREE, arcGroup, light, palette) {
  const { curves } = arcGroup.userData;
  const group = new THREE.Group();
  const count = Math.max(1, curves.length * PULSES);
  const pulses = new THREE.InstancedMesh(
    new THREE.SphereGeometry(0.058, 12, 10),
    new THREE.MeshBasicMaterial({ color: 0xffffff }),
    count,
  );
  const tones = [new THREE.Color(palette.soft), new THREE.Color(palette.ours)];
  curves.forEach(({ carries }, i) => {
    for (let p = 0; p < PULSES; p += 1) pulses.setColorAt(i * PULSES + p, tones[Number(carries)]);
  });
  const ripples = [0, 1].map(() => {
    const material = new THREE.MeshBasicMaterial({ color: palette.ours, transparent: true, opacity: 0, side: THREE.DoubleSide });
    const ripple = new THREE.Mesh(new THREE.RingGeometry(0.16, 0.185, 48), material);
    ripple.position.copy(light.position);
    return ripple;
  });
  group.add(pulses, ...ripples);
  const matrix = new THREE.Matrix4();
  const size = new THREE.Vector3();
  let began = null;
  let ended;
  const done = new Promise((resolve) => {
    ended = resolve;
  });

  function step(now, camera) {
    began ??= now;
    const elapsed = now - began;
    curves.forEach(({ curve }, i) => {
      for (let p = 0; p < PULSES; p += 1) {
        const t = (elapsed - (p / PULSES) * SPREAD_MS - (i % 3) * 40) / TRAVEL_MS;
        const there = t > 0 && t < 1;
        const grown = there ? Math.min(1, 8 * t, 10 * (1 - t)) * (1 - 0.07 * p) : 0;
        matrix.makeTranslation(curve.getPoint(eased(Math.min(1, Math.max(0, t)))));
        matrix.scale(size.setScalar(grown));
        pulses.setMatrixAt(i * PULSES + p, matrix);
      }
    });
    pulses.instanceMatrix.needsUpdate = true;
    const arrived = Math.min(1, Math.max(0, (elapsed - 0.75 * TRAVEL_MS) / SPREAD_MS));
    light.material.emissiveIntensity = curves.length ? 1.6 * arrived : 0;
    light.scale.setScalar(1 + 0.5 * arrived);
    ripples.forEach((ripple, i) => {
      const t = (elapsed - TRAVEL_MS - i * 260) / RIPPLE_MS;
      ripple.lookAt(camera.position);
      ripple.scale.setScalar(1 + 5 * Math.max(0, t));
      ripple.material.opacity = curves.length && t > 0 && t < 1 ? 0.6 * (1 - t) : 0;
    });
    if (elapsed > TRAVEL_MS + SPREAD_MS) ended();
    return elapsed < TRAVEL_MS + 260 + RIPPLE_MS + 60;
  }

  return { group, step, done, finish: () => ended() };
}
