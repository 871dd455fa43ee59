// The things of the scene: the object, a camera with its number, the server's antenna, the floor.
//
// Data has z up, three.js y: (x, y, z) becomes (x, z, −y). Camera 0 stands on the side of negative y.

export const RING = 2.75;
const FLOOR = -0.95;
const HEART = 0.1; // height of the object's middle, at which all cameras look
export const MAST = { angle: (105 * Math.PI) / 180, radius: 3.75, height: 2.45 };

/** Where a device stands: its azimuth and elevation in degrees, and its floor where several share a place. */
export function station(THREE, azimuth, elevation, floor = 0) {
  const a = (azimuth * Math.PI) / 180;
  const e = (elevation * Math.PI) / 180;
  const flat = Math.cos(e) * RING;
  return new THREE.Vector3(Math.sin(a) * flat, Math.sin(e) * RING * 0.68 + floor * 0.36, Math.cos(a) * flat);
}

export function antennaTip(THREE) {
  const { angle, radius, height } = MAST;
  return new THREE.Vector3(Math.sin(angle) * radius, height, Math.cos(angle) * radius);
}

/** The object, flat-shaded, on the floor; a plain crystal where there is no mesh. */
export function thing(THREE, mesh, palette) {
  let geometry;
  if (mesh) {
    const points = new Float32Array(mesh.vertices.length);
    for (let i = 0; i < points.length; i += 3) {
      points[i] = mesh.vertices[i];
      points[i + 1] = mesh.vertices[i + 2];
      points[i + 2] = -mesh.vertices[i + 1];
    }
    const indexed = new THREE.BufferGeometry();
    indexed.setAttribute("position", new THREE.BufferAttribute(points, 3));
    indexed.setIndex(mesh.faces);
    geometry = indexed.toNonIndexed();
    geometry.computeVertexNormals();
  } else {
    geometry = new THREE.IcosahedronGeometry(0.7, 0);
  }
  geometry.scale(1.36, 1.36, 1.36);
  geometry.computeBoundingBox();
  const { min, max } = geometry.boundingBox;
  const solid = new THREE.MeshStandardMaterial({
    color: palette.object,
    roughness: 0.8,
    flatShading: true,
    side: THREE.DoubleSide,
    polygonOffset: true,
    polygonOffsetFactor: 1,
    polygonOffsetUnits: 1,
  });
  const group = new THREE.Group();
  group.add(new THREE.Mesh(geometry, solid));
  if (geometry.attributes.position.count < 30_000) {
    const lines = new THREE.LineBasicMaterial({ color: palette.edge, transparent: true, opacity: 0.5 });
    group.add(new THREE.LineSegments(new THREE.EdgesGeometry(geometry, 28), lines));
  }
  const height = Math.max(HEART - (min.y + max.y) / 2, FLOOR + 0.06 - min.y);
  const stand = height + min.y - FLOOR;
  const whole = new THREE.Group();
  const stone = new THREE.MeshStandardMaterial({ color: palette.stand, roughness: 0.9 });
  const round = Math.min(1.1, 0.25 + 0.5 * Math.max(max.x - min.x, max.z - min.z));
  const table = new THREE.Mesh(new THREE.CylinderGeometry(round, round, 0.05, 64), stone);
  table.position.y = FLOOR + stand - 0.03;
  const leg = new THREE.Mesh(new THREE.CylinderGeometry(0.16, 0.3, Math.max(0.01, stand - 0.05), 32), stone);
  leg.position.y = FLOOR + (stand - 0.05) / 2;
  group.position.y = height;
  whole.add(group, table, leg);
  return whole;
}

/** A camera that looks at the middle. Its parts that change colour: userData.body, frustum, label. */
export function eye(THREE, place, number, palette) {
  const group = new THREE.Group();
  const dark = new THREE.MeshStandardMaterial({ color: palette.idle, roughness: 0.55 });
  const body = new THREE.Mesh(new THREE.BoxGeometry(0.3, 0.2, 0.24), dark);
  const lens = new THREE.Mesh(new THREE.CylinderGeometry(0.075, 0.095, 0.14, 20), dark);
  lens.rotation.x = Math.PI / 2;
  lens.position.z = 0.18;
  const near = 0.25;
  const far = 0.72;
  const w = 0.23;
  const corners = [[-w, -w], [w, -w], [w, w], [-w, w]].map(([x, y]) => new THREE.Vector3(x, y, far));
  const points = corners.flatMap((corner, k) => [new THREE.Vector3(0, 0, near), corner, corner, corners[(k + 1) % 4]]);
  const frustum = new THREE.LineSegments(new THREE.BufferGeometry().setFromPoints(points));
  frustum.computeLineDistances();
  group.add(body, lens, frustum);
  group.position.copy(place);
  group.lookAt(0, HEART, 0);
  const label = new THREE.Sprite(new THREE.SpriteMaterial({ transparent: true, depthTest: false }));
  label.position.copy(place).add(new THREE.Vector3(0, 0.36, 0));
  label.renderOrder = 2;
  const tall = place.y - FLOOR;
  const thin = new THREE.MeshStandardMaterial({ color: palette.stand, roughness: 0.8 });
  const pole = new THREE.Mesh(new THREE.CylinderGeometry(0.018, 0.018, tall, 8), thin);
  pole.position.set(place.x, FLOOR + tall / 2, place.z);
  const whole = new THREE.Group();
  whole.add(group, label, pole);
  whole.userData = { body: dark, frustum, label, number, place };
  return whole;
}

/** The number of a device in a disc: full where it sends, an outline where it is weak, dashed where it is silent. */
export function badge(THREE, text, state, palette, lit) {
  const size = 128;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const pen = canvas.getContext("2d");
  const colour = state === "sends" || state === "weak" ? palette.ours : state === "idle" ? palette.ink : palette.soft;
  pen.beginPath();
  pen.arc(size / 2, size / 2, size / 2 - 14, 0, 2 * Math.PI);
  pen.fillStyle = state === "sends" ? palette.ours : palette.page;
  pen.globalAlpha = state === "sends" ? 1 : 0.88;
  pen.fill();
  pen.globalAlpha = 1;
  pen.lineWidth = lit ? 14 : 7;
  pen.strokeStyle = lit ? palette.ink : colour;
  if (state === "silent") pen.setLineDash([16, 13]);
  if (state === "noise") pen.setLineDash([3, 12]);
  pen.stroke();
  pen.fillStyle = state === "sends" ? palette.page : colour;
  pen.font = `600 ${text.length > 2 ? 46 : 58}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, size / 2, size / 2 + 4);
  if (state === "silent") {
    pen.setLineDash([]);
    pen.lineWidth = 6;
    pen.beginPath();
    pen.moveTo(30, size - 30);
    pen.lineTo(size - 30, 30);
    pen.globalAlpha = 0.55;
    pen.stroke();
  }
  const texture = new THREE.CanvasTexture(canvas);
  texture.colorSpace = THREE.SRGBColorSpace;
  return texture;
}

/** The server's mast: a pole, three dipoles, and a light at its tip, userData.light. */
export function mast(THREE, palette) {
  const tip = antennaTip(THREE);
  const group = new THREE.Group();
  const metal = new THREE.MeshStandardMaterial({ color: palette.mast, roughness: 0.5 });
  const floor = FLOOR;
  const pole = new THREE.Mesh(new THREE.CylinderGeometry(0.035, 0.07, tip.y - floor, 16), metal);
  pole.position.set(tip.x, (tip.y + floor) / 2, tip.z);
  group.add(pole);
  const foot = new THREE.Mesh(new THREE.CylinderGeometry(0.34, 0.4, 0.12, 28), metal);
  foot.position.set(tip.x, floor + 0.06, tip.z);
  group.add(foot);
  for (const [drop, width] of [[0.28, 0.72], [0.52, 0.54], [0.74, 0.38]]) {
    const bar = new THREE.Mesh(new THREE.CylinderGeometry(0.02, 0.02, width, 10), metal);
    bar.position.set(tip.x, tip.y - drop, tip.z);
    bar.rotation.set(0, MAST.angle, Math.PI / 2, "YXZ");
    group.add(bar);
  }
  const glow = new THREE.MeshStandardMaterial({ color: palette.mast, emissive: palette.ours, emissiveIntensity: 0 });
  const light = new THREE.Mesh(new THREE.SphereGeometry(0.11, 24, 16), glow);
  light.position.copy(tip);
  group.add(light);
  group.userData = { light };
  return group;
}

/** The floor: a soft shadow under the object, and the ring on which the cameras stand. */
export function ground(THREE, palette) {
  const group = new THREE.Group();
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 256;
  const pen = canvas.getContext("2d");
  const fade = pen.createRadialGradient(128, 128, 8, 128, 128, 126);
  fade.addColorStop(0, "rgba(0,0,0,.32)");
  fade.addColorStop(0.5, "rgba(0,0,0,.13)");
  fade.addColorStop(1, "rgba(0,0,0,0)");
  pen.fillStyle = fade;
  pen.fillRect(0, 0, 256, 256);
  const shade = new THREE.MeshBasicMaterial({ map: new THREE.CanvasTexture(canvas), transparent: true, depthWrite: false });
  const shadow = new THREE.Mesh(new THREE.PlaneGeometry(3.4, 3.4), shade);
  shadow.rotation.x = -Math.PI / 2;
  shadow.position.y = FLOOR + 0.005;
  const line = new THREE.MeshBasicMaterial({ color: palette.line, transparent: true, opacity: 0.9 });
  const ring = new THREE.Mesh(new THREE.RingGeometry(RING * 0.866 - 0.012, RING * 0.866 + 0.012, 128), line);
  ring.rotation.x = -Math.PI / 2;
  ring.position.y = FLOOR + 0.01;
  group.add(shadow, ring);
  return group;
}
