"""The least ε whose accuracy reaches a target, of one network with one codec: a search on the validation objects.

The steps lie on a grid of ε and draw the same noise at each, so that accuracy rises with ε up to little; what was
simulated for one target serves the next. The test objects are not looked at.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, floor, log10

from airpool.account.budget import calibrated
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import held_out
from airpool.models.model import Model
from airpool.network import Network
from airpool.web.asked import AskedError

TRIALS, SEED = 3, 0
_STEPS = 48  # of ε in a factor of ten: 4.9 % each
FIRST, LAST = ceil(log10(0.02) * _STEPS), floor(log10(50) * _STEPS)


def grid(step: int) -> float:
    """ε of a step, rounded to three digits."""
    return float(f"{10 ** (step / _STEPS):.3g}")


@lru_cache(maxsize=256)
def met(bare: Network, epsilon: float, share: float | None) -> Network:
    """The network with the least noise that meets an ε."""
    return calibrated(bare, epsilon=epsilon, share=share)


@lru_cache(maxsize=1024)
def validated(bare: Network, share: float | None, model: Model, codec: str, epsilon: float) -> float:
    """Accuracy on the validation objects with the least noise that meets ε; 0 where none does."""
    try:
        network = met(bare, epsilon, share)
    except ValueError:
        return 0.0
    objects = held_out(model, network, codec=codec, split="validation", unseen=True)
    return evaluate(objects, network, trials=TRIALS, seed=SEED).accuracy_mean


def search(
    bare: Network, share: float | None, model: Model, codec: str, *, accuracy: float
) -> Iterator[tuple[float, float | None]]:
    """Steps of the search: its progress from 0 to 1, and at the last step the ε. An error where none reaches it.

    bare: the network, whatever its noise. share: as in `account.budget.calibrated`.
    """

    def reaches(step: int) -> bool:
        return validated(bare, share, model, codec, grid(step)) >= accuracy

    low, high = FIRST - 1, LAST
    yield 0.0, None
    if not reaches(high):
        best = validated(bare, share, model, codec, grid(high))
        raise AskedError(
            f"accuracy={accuracy:g} is not reached: even ε = {grid(high):g} gives {best:.3f} on the validation "
            "objects. Ask for less, or change the network",
            field="accuracy",
        )
    first = high - low
    while high - low > 1:
        yield 1 - (high - low) / first, None
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    yield 1.0, grid(high)
