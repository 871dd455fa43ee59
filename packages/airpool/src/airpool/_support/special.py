"""Special functions: SciPy's where it is installed, else our own of the same names (plain).

A device that does without SciPy has the same ε to the digits that are shown (tests/test_without_scipy.py,
docs/decisions/0023-a-device-without-scipy.md).
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from airpool._support.arrays import Floats

if TYPE_CHECKING or find_spec("scipy") is None:
    from airpool._support.plain import *  # noqa: F403
else:
    from scipy.special import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]

    def noncentral_tail(x: ArrayLike, df: ArrayLike, nc: ArrayLike, *, upper: bool) -> Floats:
        from scipy.stats import ncx2

        return ncx2.sf(x, df, nc) if upper else ncx2.cdf(x, df, nc)
