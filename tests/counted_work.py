"""How much a computation on tensors does: a number that is the same on every machine, busy or not."""

from collections.abc import Callable
from math import prod
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode


class _Elements(TorchDispatchMode):
    """Counts the elements that operations write; views write none."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.written += sum(prod(each.shape) for each in tree_leaves(out) if isinstance(each, Tensor))
        return out


def work(job: Callable[[], object]) -> int:
    """Elements written plus floating-point operations of matrix products and convolutions."""
    with FlopCounterMode(display=False) as flops, _Elements() as elements:
        job()
    return elements.written + flops.get_total_flops()
