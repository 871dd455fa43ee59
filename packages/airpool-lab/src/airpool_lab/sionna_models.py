"""Gains of Sionna's 3GPP TR 38.901 channels: the extra `sionna`.

A draw is the frequency response of one link at the carrier, the sum of its paths: narrowband, so the delay spread has
no effect. One vertical omnidirectional antenna per device and server; no path loss or shadowing, so E[h²] = 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from airpool._support import extras
from airpool._support.arrays import Array, Floats
from airpool._support.draws import Generator, seed

MODELS = (*(f"tdl-{x}" for x in "abcde"), *(f"cdl-{x}" for x in "abcde"), "umi")

# Size of the reference sample. At an outage of 1 % its standard error is 0.08 %. Drawn once per process: one second for
# a TDL, half a minute for CDL and UMi.
REFERENCE_DRAWS = 2**14
_REFERENCE_SEED = 38901

_CARRIER_HZ = 3.5e9
_DELAY_SPREAD_S = 100e-9
# Links per call: their rays take about 100 MB.
_BLOCK = 1024


@dataclass(frozen=True)
class Sionna:
    """The law of one of Sionna's models: that of its reference sample."""

    model: str = ""
    reference_draws: ClassVar[int] = REFERENCE_DRAWS

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model={self.model!r} must be one of {', '.join(MODELS)}")

    def cdf(self, gain: Floats) -> Floats:
        return np.searchsorted(reference(self.model), gain, side="left") / REFERENCE_DRAWS

    def quantile(self, probability: Floats) -> Floats:
        return reference(self.model)[(np.asarray(probability) * REFERENCE_DRAWS).astype(np.int64)]

    def sample(self, shape: tuple[int, ...], rng: Generator, *, dtype: Any = None) -> Array:
        """Independent gains on the generator's device, reproducible from `rng`. Sionna computes in single precision.

        The global generators of torch and NumPy are not changed.
        """
        torch, config = _sionna()
        numpy = isinstance(rng, np.random.Generator)
        torch_device = "cpu" if numpy else str(rng.device)
        draw = _model(self.model, torch_device)
        # `config.seed` would also reseed torch's global generator.
        config.torch_rng(torch_device).manual_seed(seed(rng))
        count = int(np.prod(shape))
        with torch.no_grad():
            parts = [draw(min(_BLOCK, count - start)) for start in range(0, count, _BLOCK)]
            gain = torch.cat(parts).reshape(shape) if parts else torch.empty(shape, device=torch_device)
        if numpy:
            return gain.numpy().astype(np.float64 if dtype is None else dtype)
        return gain.to(torch.get_default_dtype() if dtype is None else dtype)


@cache
def reference(model: str) -> Floats:
    """A sorted sample of REFERENCE_DRAWS gains, the same in every process."""
    gains = np.sort(Sionna(model).sample((REFERENCE_DRAWS,), np.random.default_rng(_REFERENCE_SEED)))
    gains.setflags(write=False)
    return gains


def _model(model: str, torch_device: str) -> Callable[[int], Any]:
    """A function from a number of links to that many gains."""
    from sionna.phy.channel import gen_single_sector_topology, tr38901  # pyright: ignore[reportMissingImports]

    kind, _, letter = model.partition("-")
    antenna = tr38901.PanelArray(
        num_rows_per_panel=1,
        num_cols_per_panel=1,
        polarization="single",
        polarization_type="V",
        antenna_pattern="omni",
        carrier_frequency=_CARRIER_HZ,
        device=torch_device,
    )
    if kind in ("tdl", "cdl"):
        arrays = {"ut_array": antenna, "bs_array": antenna, "direction": "uplink"} if kind == "cdl" else {}
        law = tr38901.CDL if kind == "cdl" else tr38901.TDL
        channel = law(letter.upper(), _DELAY_SPREAD_S, _CARRIER_HZ, device=torch_device, **arrays)
        return lambda count: _flat(channel(count, 1, 1.0)[0])

    def urban(count: int) -> Any:
        channel = tr38901.UMi(
            _CARRIER_HZ,
            "low",
            antenna,
            antenna,
            "uplink",
            enable_pathloss=False,
            enable_shadow_fading=False,
            device=torch_device,
        )
        # One device in each of `count` cells, so that links are independent.
        place, station, *_, indoor = gen_single_sector_topology(count, 1, "umi", device=torch_device)
        zero = place * 0  # orientation and velocity; a tilted antenna would lose power by polarisation
        channel.set_topology(place, station, zero, zero, zero, indoor)
        return _flat(channel(1, 1.0)[0])

    return urban


def _flat(paths: Any) -> Any:
    """|Σ paths| from Sionna's [batch, rx, rx antenna, tx, tx antenna, path, time]; the other axes have length 1."""
    return paths.sum(dim=-2).abs().reshape(-1)


@cache
def _sionna() -> tuple[Any, Any]:
    """torch and Sionna's configuration."""
    try:
        import torch

        # Importing Sionna reseeds torch's global generators; fork_rng restores them.
        with torch.random.fork_rng():
            from sionna.phy import config  # pyright: ignore[reportMissingImports]
    except ImportError as missing:
        advice = extras.install("airpool-lab[sionna]")
        raise ImportError(f"fading models sionna:* need Sionna ({missing}): {advice}") from None
    return torch, config
