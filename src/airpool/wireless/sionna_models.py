"""Sionna's 3GPP TR 38.901 channels as gains: the extra `sionna` (pip install 'airpool[sionna]').

Each draw is one link at one instant, reduced to its frequency response at the carrier: the sum of its paths, which is
all that a narrowband signal sees. Devices and server have one vertical omnidirectional antenna each; path loss and
shadowing are left out, so that E[h²] = 1. A delay spread would matter between frequencies, but not at one.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from airpool.arrays import Array, Floats
from airpool.draws import Generator, seed

MODELS = (*(f"tdl-{x}" for x in "abcde"), *(f"cdl-{x}" for x in "abcde"), "umi")

# Draws behind the law of a model; at an outage of 1 % its standard error is 0.08 %. One second for a TDL; the ray-based
# CDL and UMi take half a minute, once in a process.
REFERENCE_DRAWS = 2**14
_REFERENCE_SEED = 38901

_CARRIER_HZ = 3.5e9
_DELAY_SPREAD_S = 100e-9
# Rays of so many links fit in memory at once (about 100 MB).
_BLOCK = 1024


def sample(model: str, shape: tuple[int, ...], rng: Generator, *, dtype: Any = None) -> Array:
    """Independent gains of a Sionna model, where the generator lives. Sionna computes in single precision.

    Holds: reproducible from `rng`; the global generators of torch and NumPy are left as they were.
    """
    torch, config = _sionna()
    numpy = isinstance(rng, np.random.Generator)
    torch_device = "cpu" if numpy else str(rng.device)
    draw = _model(model, torch_device)
    # Not `config.seed`, which would reseed torch's global generator as well.
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
    """The law of a model as a sorted sample of REFERENCE_DRAWS gains, the same in every process."""
    gains = np.sort(sample(model, (REFERENCE_DRAWS,), np.random.default_rng(_REFERENCE_SEED)))
    gains.setflags(write=False)
    return gains


def _model(model: str, torch_device: str) -> Callable[[int], Any]:
    """A function from a number of links to that many gains."""
    from sionna.phy.channel import gen_single_sector_topology, tr38901  # pyright: ignore[reportMissingImports]

    kind, _, letter = model.partition("-")
    if kind == "tdl":
        channel = tr38901.TDL(letter.upper(), _DELAY_SPREAD_S, _CARRIER_HZ, device=torch_device)
        return lambda count: _flat(channel(count, 1, 1.0)[0])
    antenna = tr38901.PanelArray(
        num_rows_per_panel=1,
        num_cols_per_panel=1,
        polarization="single",
        polarization_type="V",
        antenna_pattern="omni",
        carrier_frequency=_CARRIER_HZ,
        device=torch_device,
    )
    if kind == "cdl":
        arrays = {"ut_array": antenna, "bs_array": antenna, "direction": "uplink", "device": torch_device}
        channel = tr38901.CDL(letter.upper(), _DELAY_SPREAD_S, _CARRIER_HZ, **arrays)
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
        # One device in each of `count` cells: links are independent, line of sight or not as the model has it.
        place, station, *_, indoor = gen_single_sector_topology(count, 1, "umi", device=torch_device)
        still = place * 0  # not tilted, not moving: a tilt would turn the polarisation away and lose power
        channel.set_topology(place, station, still, still, still, indoor)
        return _flat(channel(1, 1.0)[0])

    return urban


def _flat(paths: Any) -> Any:
    """|Σ paths| from Sionna's [batch, rx, rx antenna, tx, tx antenna, path, time]; only batch and path are long."""
    return paths.sum(dim=-2).abs().reshape(-1)


@cache
def _sionna() -> tuple[Any, Any]:
    """torch, and Sionna's configuration, which holds its generators."""
    import torch

    try:
        # Loading Sionna reseeds torch's global generators: they are put back.
        with torch.random.fork_rng():
            from sionna.phy import config  # pyright: ignore[reportMissingImports]
    except ImportError as missing:
        raise ImportError(f"fading models sionna:* need Sionna ({missing}): pip install 'airpool[sionna]'") from None
    return torch, config
