"""Laws of the noise that others lend a device, as probabilities or as draws; all steps only add noise."""

from dataclasses import dataclass

import numpy as np

from .curves import Floats


@dataclass(frozen=True, eq=False)
class Law:
    """The others' noise R, (m,), as probabilities; what is left to 1 is silence of the device itself.

    sampled: R are as many draws, equally likely, and a mean over them has an error.
    """

    noise: Floats
    probability: Floats
    sampled: bool = False

    def merged(self, kinds: int) -> "Law":
        """Fewer kinds, each with the most noise in it."""
        order = np.argsort(self.noise)
        noise, p = self.noise[order], self.probability[order]
        keep = p > 0
        noise, p = noise[keep], p[keep]
        if len(p) <= kinds:
            return Law(noise, p)
        # Half of them for little noise that is rare, which small δ come from.
        ends = np.concatenate([np.geomspace(1e-14, 0.05, kinds // 2), np.linspace(0.06, 1, kinds - kinds // 2)[:-1]])
        cell = np.searchsorted(ends, np.cumsum(p) / p.sum())
        used = np.unique(cell)
        return Law(np.array([noise[cell == c].max() for c in used]), np.array([p[cell == c].sum() for c in used]))


def known(law: Law) -> Law:
    """A law of few kinds of noise, from below: rounded up, and the shares of a sample less their error."""
    n, ends = len(law.noise), np.concatenate([[0.01, 0.02, 0.04], np.linspace(0.06, 0.98, 24), [0.99, 1.0]])
    # Where to cut is chosen by one half, and how much is below it counted in the other (Hoeffding, and for rare noise
    # Bernstein).
    cut = np.quantile(law.noise[: n // 2], ends, method="higher")
    cut = np.unique(cut[np.isfinite(cut)])
    m, log = n - n // 2, float(np.log(len(ends) / 1e-9))
    seen = np.array([np.mean(law.noise[n // 2 :] <= c) for c in cut])
    spread = np.sqrt(2 * seen * (1 - seen) * log / m) + 7 * log / (3 * m)
    share = np.maximum.accumulate(np.maximum(seen - np.minimum(np.sqrt(log / (2 * m)), spread), 0.0))
    more = np.diff(share, prepend=0.0)
    return Law(cut[more > 0], more[more > 0]) if np.any(more > 0) else Law(np.array([np.inf]), np.zeros(1))
