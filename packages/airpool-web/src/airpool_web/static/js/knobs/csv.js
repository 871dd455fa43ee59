// The numbers as CSV, with the parameters and the version that made them.

const quoted = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const row = (...values) => Array.from({ length: 5 }, (_, index) => quoted(values[index])).join(",");

/** One table: a row for each number, of each device and of each point of the curve. */
export function table({ network, leakage, accuracy, curve, mse, cost }, settings, version) {
  const comments = [
    `# airpool ${version ?? ""}; one row a number, not rounded; accuracy: ${accuracy?.data ?? "not computed"}`,
    `# settings: ${new URLSearchParams(settings)}`,
    ...[network?.command ?? []].flat().map((line) => `# ${line}`),
  ];
  const rows = [row("quantity", "at", "value", "low_95", "high_95")];
  for (const each of leakage.devices ?? []) {
    for (const name of ["epsilon", "epsilon_local", "epsilon_paper", "noise_std", "participation"]) {
      rows.push(row(`${name} of a device`, each.device, each[name]));
    }
  }
  rows.push(row("delta", "", leakage.delta), row("epsilon of the object", "", leakage.epsilon_object));
  for (const part of mse?.parts ?? []) rows.push(row("mean square error", part.name, part.value));
  if (mse) rows.push(row("mean square error", "total", mse.total));
  for (const [name, value] of Object.entries(cost ?? {})) if (typeof value === "number") rows.push(row(name, "", value));
  if (accuracy) rows.push(row("accuracy", leakage.epsilon, accuracy.mean, accuracy.low, accuracy.high));
  (curve?.epsilon ?? []).forEach((at, index) => {
    const ours = curve.ours?.[index];
    if (ours) rows.push(row("accuracy at epsilon", at, ours.mean, ours.low, ours.high));
    const vote = curve.vote?.[index];
    if (vote) rows.push(row("accuracy of the vote at epsilon", at, vote.mean ?? vote, vote.low, vote.high));
  });
  for (const point of curve?.paper ?? []) rows.push(row("accuracy printed in the paper at its epsilon", point.epsilon, point.accuracy));
  return [...comments, ...rows, ""].join("\n");
}
