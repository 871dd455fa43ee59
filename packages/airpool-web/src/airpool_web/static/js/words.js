// Numbers as people read them. A bound is rounded up, so that the printed number is a bound too.

const NOISE = 1e-12; // relative: of floating-point arithmetic, as in _support/rounding.py

/** The number behind a value of the server: "inf" is ∞, what is missing is NaN. */
export function number(value) {
  if (value === "inf") return Infinity;
  return value === null || value === undefined || value === "" ? NaN : Number(value);
}

/** ε as text, rounded up to three decimals: "2.080", "∞", or "–" where there is none. */
export function epsilon(value) {
  const x = number(value);
  if (Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return "∞";
  if (x >= 1e6) {
    const unit = 10 ** (Math.floor(Math.log10(x)) - 3);
    return (Math.ceil(x / unit - NOISE * 1e4) * unit).toPrecision(4);
  }
  const scaled = x * 1000;
  return (Math.ceil(scaled - NOISE * Math.max(1, Math.abs(scaled))) / 1000).toFixed(3);
}

/** An accuracy in the house's style: ".888". */
export function accuracy(value) {
  const x = number(value);
  if (Number.isNaN(x)) return "–";
  return x.toFixed(3).replace(/^0\./, ".");
}

/** The odds of a guess as text, rounded up, with as many digits as it takes to stay below 100 %. */
export function percent(value) {
  const x = number(value) * 100;
  if (Number.isNaN(x)) return "–";
  for (let digits = 1; digits <= 5; digits += 1) {
    const scaled = x * 10 ** digits;
    const up = Math.ceil(scaled - NOISE * Math.max(1, scaled)) / 10 ** digits;
    if (up < 100) return `${up.toFixed(digits).replace(/\.0$/, "")} %`;
  }
  return "100 %";
}

/** A number that somebody gave or that comes with a unit, with few digits: "0.0517", "1e-5", "1,200". */
export function plain(value, digits = 4) {
  const x = number(value);
  if (Number.isNaN(x)) return typeof value === "string" ? value : "–";
  if (!Number.isFinite(x)) return "∞";
  if (x === 0) return "0";
  if (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e7) {
    const rounded = Number(x.toPrecision(digits));
    return Math.abs(rounded) >= 1e4 ? rounded.toLocaleString("en") : String(rounded);
  }
  return x.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
}

/** A setting as text, as it is typed: 1e-5 rather than 0.00001; a list with commas. */
export function typed(value) {
  if (Array.isArray(value)) return value.map(typed).join(",");
  return typeof value === "number" && value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential() : String(value);
}

/** Devices as the command line names them: 0, "0 to 11". */
export const run = (first, last) => (first === last ? String(first) : `${first} to ${last}`);

/** Rows that are equal but for their device, as runs: [{ first, last, row }]. */
export function runs(rows, key) {
  const found = [];
  rows.forEach((row, index) => {
    const device = row.device ?? index;
    const last = found.at(-1);
    if (last && last.key === key(row) && device === last.last + 1) last.last = device;
    else found.push({ first: device, last: device, row, key: key(row) });
  });
  return found;
}
