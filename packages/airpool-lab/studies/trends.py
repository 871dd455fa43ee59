"""Laws fitted to points, with the error of their rate: a constant, a line, a power or an exponential."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from airpool._support.arrays import Floats, positive, require_shape

Form = Literal["constant", "linear", "power", "exponential"]


@dataclass(frozen=True)
class Trend:
    """ŷ(x) = a (constant), a + bx (linear), a x^b (power) or a e^{bx} (exponential), fitted to points.

    scale, rate: a and b. rate_se: the standard error of b. misfit: root mean square of ln(y/ŷ) over the points,
    infinite where ŷ is not positive.
    """

    form: Form
    scale: float
    rate: float
    rate_se: float
    misfit: float

    def __call__(self, x: ArrayLike) -> Floats:
        x = np.asarray(x, dtype=np.float64)
        match self.form:
            case "constant":
                return np.full_like(x, self.scale)
            case "linear":
                return self.scale + self.rate * x
            case "power":
                return self.scale * x**self.rate
            case "exponential":
                return self.scale * np.exp(self.rate * x)


def trend(x: ArrayLike, y: ArrayLike, *, form: Form = "power", std: ArrayLike | None = None) -> Trend:
    """Weighted least squares, on ln y where the law is a power or an exponential, relative to y where it is not.

    std: the standard error of each y, independent of the others'; its logarithm then has std/y. The standard error of b
        is the weighted fit's, times √(χ²/(m−2)) where that exceeds 1: points further from the line than their errors
        explain make it wider. Left out, all points weigh the same and the error comes from the residuals alone: it then
        says how far the points are from such a law, not how well they are known.
    Edge cases: points exactly on the law, no std → rate_se 0 up to rounding. At least 3 different x.

    >>> fit = trend([1, 10, 100, 1000], [2.0, 0.2, 0.02, 0.002])
    >>> round(fit.scale, 6), round(fit.rate, 6), fit.rate_se < 1e-6, fit.misfit < 1e-9
    (2.0, -1.0, True, True)
    """
    x, y = positive("x", x), positive("y", y)
    if form not in ("constant", "linear", "power", "exponential"):
        raise ValueError(f"form={form!r} must be constant, linear, power or exponential")
    if x.ndim != 1 or len(np.unique(x)) < 3:
        raise ValueError(f"x={x.tolist()} must be a list with at least 3 different values")
    require_shape("y", y, x.shape)
    spread = np.ones_like(y) if std is None else require_shape("std", positive("std", std), x.shape) / y

    logarithmic = form in ("power", "exponential")
    # In units of their errors: of ln y, or of y relative to itself.
    unit = spread if logarithmic else spread * y
    columns = [np.ones_like(x)] if form == "constant" else [np.ones_like(x), np.log(x) if form == "power" else x]
    design = np.stack(columns, axis=1) / unit[:, None]
    wanted = (np.log(y) if logarithmic else y) / unit
    found = np.linalg.lstsq(design, wanted)[0]
    chi_square = float(np.sum((wanted - design @ found) ** 2)) / (len(x) - len(found))
    scale, rate = (float(np.exp(found[0])) if logarithmic else float(found[0])), 0.0
    rate_se = 0.0
    if form != "constant":
        rate = float(found[1])
        variance = float(np.linalg.inv(design.T @ design)[1, 1])
        rate_se = float(np.sqrt(variance * (chi_square if std is None else max(1.0, chi_square))))
    bare = Trend(form, scale, rate, rate_se, 0.0)
    fitted = bare(x)
    misfit = float(np.sqrt(np.mean(np.log(y / fitted) ** 2))) if np.all(fitted > 0) else float("inf")
    return Trend(form, scale, rate, rate_se, misfit)
