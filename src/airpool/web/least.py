"""The least ε whose accuracy reaches a target, of one network with one codec: a search on the validation objects.

The steps lie on a grid of ε and draw the same noise at each, so that accuracy rises with ε up to little; what was
simulated for one target serves the next. The test objects are not looked at.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, floor, log10

from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import held_out
from airpool.models.model import Model
from airpool.network import Network
from airpool.web.asked import AskedError
from airpool.web.settings import Asked, met

TRIALS, SEED = 3, 0
_STEPS = 48  # of ε in a factor of ten: 4.9 % each
_LEAST, _MOST = ceil(log10(0.02) * _STEPS), floor(log10(50) * _STEPS)


def grid(step: int) -> float:
    """ε of a step, rounded to three digits."""
    return float(f"{10 ** (step / _STEPS):.3g}")


@lru_cache(maxsize=1024)
def validated(bare: Network, share: float | None, model: Model, codec: str, epsilon: float) -> float:
    """Accuracy on the validation objects with the least noise that meets ε; 0 where none does."""
    try:
        network = met(bare, epsilon, share)
    except ValueError:
        return 0.0
    objects = held_out(model, network, codec=codec, split="validation", unseen=True)
    return evaluate(objects, network, trials=TRIALS, seed=SEED).accuracy_mean


def search(wanted: Asked) -> Iterator[tuple[float, float | None]]:
    """Steps of the search: its progress from 0 to 1, and at the last step the ε. An error where none reaches it."""
    assert wanted.accuracy is not None
    low, high = _LEAST - 1, _MOST
    best = _at(wanted, high)
    if best < wanted.accuracy:
        raise AskedError(
            f"accuracy={wanted.accuracy:g} is not reached: even ε = {grid(high):g} gives {best:.3f} on the validation "
            "objects. Ask for less, or change the network",
            field="accuracy",
        )
    first = high - low
    while high - low > 1:
        yield 1 - (high - low) / first, None
        middle = (low + high) // 2
        low, high = (low, middle) if _at(wanted, middle) >= wanted.accuracy else (middle, high)
    yield 1.0, grid(high)


def _at(wanted: Asked, step: int) -> float:
    return validated(wanted.bare, wanted.share, wanted.model, wanted.codec, grid(step))


def least_epsilon(wanted: Asked) -> float:
    """The ε that the search ends with."""
    (*_, (_, found)) = search(wanted)
    assert found is not None
    return found
