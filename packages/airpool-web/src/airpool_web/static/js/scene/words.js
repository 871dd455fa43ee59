// Words of the scene: states of devices, and what is seen in one sentence for those who listen.

export const STATES = {
  idle: "ready",
  sends: "on the air",
  weak: "on the air, weak",
  noise: "noise alone",
  silent: "silent",
};
export const SIGNS = { idle: "○", sends: "●", weak: "◐", noise: "◌", silent: "⊘" };

/** A probability or a share that was counted, in per cent with one decimal: no bound, so rounded to the nearest. */
export function share(part) {
  if (part > 0 && part < 0.001) return "< 0.1 %";
  if (part < 1 && part > 0.999) return "> 99.9 %";
  return `${(100 * part).toFixed(part === 0 || part === 1 ? 0 : 1)} %`;
}

/** "12 of 12 devices on the air", and which are silent. */
export function onTheAir(devices) {
  const sends = devices.filter((each) => each.on_the_air);
  const silent = devices.filter((each) => !each.on_the_air).map((each) => each.device);
  const rest = silent.length ? `; silent: ${silent.join(", ")}` : "";
  return `${sends.length} of ${devices.length} devices on the air${rest}`;
}

/** The text alternative of the stage. */
export function described(title, count, result) {
  const about = `${title} in the middle, ${count} devices around it, and the server's antenna.`;
  if (!result) return `${about} Nothing has been sent yet.`;
  return `${about} ${onTheAir(result.devices)}. ${answered(result)}`;
}

export function answered(result) {
  if (result.label === null) return `No answer. ${result.no_answer}`;
  const truth = result.right === null ? "its true class is not known" : result.right ? "right" : `wrong, it is ${named(result.truth)}`;
  return `The server's answer: ${named(result.label)}, ${truth}, with probability ${share(result.top[0].probability)}.`;
}

export const named = (label) => (label === null ? "no answer" : label.replaceAll("_", " "));
