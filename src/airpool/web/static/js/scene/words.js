// Numbers as people read them, and what is seen in one sentence for those who listen.

export const STATES = {
  idle: "ready",
  sends: "on the air",
  weak: "on the air, weak",
  noise: "noise alone",
  silent: "silent",
};
export const SIGNS = { idle: "○", sends: "●", weak: "◐", noise: "◌", silent: "⊘" };

/** A share in per cent, one decimal where it matters. */
export function percent(share) {
  const value = 100 * share;
  return `${value >= 99.95 || value === 0 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toPrecision(2)} %`;
}

/** ε as text, rounded up: it is a promise. */
export function epsilon(value) {
  if (value === "inf" || value === null) return "∞";
  const digits = value < 1 ? 3 : 2;
  return (Math.ceil(value * 10 ** digits - 1e-9) / 10 ** digits).toFixed(digits);
}

export function exponent(value) {
  const [digits, power] = value.toExponential(0).split("e");
  const raised = [...String(Number(power))].map((c) => ({ "-": "⁻" })[c] ?? "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("");
  return value >= 0.001 ? String(value) : `${digits === "1" ? "" : `${digits}·`}10${raised}`;
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
  return `The server's answer: ${named(result.label)}, ${truth}, with probability ${percent(result.top[0].probability)}.`;
}

export const named = (label) => (label === null ? "no answer" : label.replaceAll("_", " "));
