// A slider's positions and the values they stand for, linear or logarithmic.

export const POSITIONS = 400;

/** A knob's scale. @param {{min: number, max: number, step?: number, scale?: string, kind: string}} knob */
export function scaleOf({ min, max, step, scale, kind }) {
  const logarithmic = scale === "log" && min > 0;
  const at = (share) => (logarithmic ? min * (max / min) ** share : min + (max - min) * share);
  const rounded = (value) => {
    const grain = step || (kind === "whole" ? 1 : 0);
    const clamped = Math.min(max, Math.max(min, value));
    if (grain && !logarithmic) return tidy(Math.min(max, min + Math.round((clamped - min) / grain) * grain));
    if (kind === "whole") return Math.round(clamped);
    return Math.min(max, Math.max(min, Number(clamped.toPrecision(3))));
  };
  return {
    /** The value at a position of 0 … POSITIONS. */
    value: (position) => rounded(at(position / POSITIONS)),
    /** The position nearest to a value; values beyond the ends are at the ends. */
    position(value) {
      const x = Math.min(max, Math.max(min, value));
      const share = logarithmic ? Math.log(x / min) / Math.log(max / min) : (x - min) / (max - min);
      return Math.round(POSITIONS * share);
    },
    /** The next value up (1) or down (-1), for the arrow keys. */
    next(value, direction) {
      if (logarithmic && kind !== "whole") return rounded(value * 1.05 ** direction);
      return rounded(value + direction * (step || (kind === "whole" ? 1 : (max - min) / 100)));
    },
  };
}

// 0.1 + 0.2 is written as 0.3.
function tidy(value) {
  return Number(value.toPrecision(10));
}
