"""Any trunk in int8: every convolution but the first has integers as inputs and weights; all else stays float32.

    y = scale · step · Σ w x + bias        scale, bias: one per output channel; step: of the input

The inputs x go from 0 to 255, or from -128 to 127 where they may be negative; the weights w from -64 to 64. Processors
without VNNI (Intel before 2019, AMD before 2022) add two products in saturating 16 bits: 2 · 255 · 64 just fits, so the
result is the same on all of them. Steps and biases are fitted to calibration views, which must not be those that the
trunk is tested on.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from airpool.models.vision.int8 import Int8Trunk, checked, openvino

_LARGEST_WEIGHT = 64


class Int8Module(nn.Module):
    """An int8 trunk in the place of a torch module: no gradient.

    model.features = nn.Sequential(Int8Module(quantise(model.features, views)))
    """

    def __init__(self, trunk: Int8Trunk) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, views: Tensor) -> Tensor:
        return torch.from_numpy(self.trunk(_array(views)))


def quantise(trunk: nn.Module, calibration_views: Tensor, *, threads: int | None = None) -> Int8Trunk:
    """The trunk in int8, fitted to calibration_views (N, C, H, H), bytes or floats in [0, 1]; 120 are enough."""
    ov = openvino()  # fails before the work if it is not installed
    rounded = fitted(trunk, calibration_views)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is deprecated, and turns sizes into constants, as it should
        traced = torch.jit.trace(rounded, torch.zeros(1, *calibration_views.shape[1:]), check_trace=False)
        model = ov.convert_model(traced, input=ov.PartialShape([-1, *calibration_views.shape[1:]]))
    with TemporaryDirectory() as folder:
        graph, constants = (Path(folder, name) for name in ("trunk.xml", "trunk.bin"))
        ov.serialize(model, graph, constants)
        return Int8Trunk(graph.read_bytes(), constants.read_bytes(), threads=threads)


@torch.no_grad()
def fitted(trunk: nn.Module, calibration_views: Tensor) -> nn.Module:
    """A copy of the trunk, in eval mode, that computes what int8 computes in float32: slow, for `quantise` to convert.

    Each step covers the largest value seen: clipping costs more than finer steps gain. Weights of grouped convolutions
    are rounded one after the other, each making up for those before it. Each bias corrects the shift of its channel's
    mean by all rounding before it. Takes 10 MB a view.
    """
    views = torch.from_numpy(checked(_array(calibration_views), tuple(calibration_views.shape[1:])))
    if len(views) == 0:
        raise ValueError("calibration_views holds no view")
    rounded = copy.deepcopy(trunk).float().cpu().eval().requires_grad_(False)
    means: dict[nn.Conv2d, Tensor] = {}  # of each output channel, in float32; in the order of the forward pass
    inputs: dict[nn.Conv2d, tuple[float, float]] = {}
    moments: dict[nn.Conv2d, Tensor] = {}

    def see(layer: nn.Conv2d, given: tuple[Tensor, ...], output: Tensor) -> None:
        if layer in means:
            raise ValueError("an nn.Conv2d that is used twice cannot be put into int8: each has one step and one bias")
        if not output.isfinite().all():
            raise ValueError("the trunk's maps are not finite on calibration_views")
        means[layer], inputs[layer] = output.mean((0, 2, 3)), (float(given[0].min()), float(given[0].max()))
        if layer.groups > 1 and not isinstance(layer.padding, str):
            moments[layer] = _moments(layer, given[0])

    def correct(layer: nn.Conv2d, _: tuple[Tensor, ...], output: Tensor) -> Tensor:
        shift = means[layer] - output.mean((0, 2, 3))
        layer.bias = nn.Parameter(shift if layer.bias is None else layer.bias + shift, requires_grad=False)
        return output + shift[:, None, None]

    with _hooked(rounded, see):
        rounded(views)
    if len(means) < 2:
        raise ValueError("the trunk has fewer than two nn.Conv2d: there is nothing to put into int8")
    for layer in list(means)[1:]:
        _round(layer, *inputs[layer], moments.get(layer))
    with _hooked(rounded, correct):
        rounded(views)
    return rounded


def _round(layer: nn.Conv2d, smallest: float, largest: float, moments: Tensor | None) -> None:
    """Rounds the layer's weights, and its inputs in steps that cover this range."""
    low, high = (-128, 127) if smallest < 0 else (0, 255)
    step = max(largest / high, smallest / low if low else 0.0) or 1.0
    layer.register_forward_pre_hook(partial(_rounded, step, low, high))
    scale = layer.weight.flatten(1).abs().amax(1).clamp(min=1e-12) / _LARGEST_WEIGHT
    if moments is not None:
        layer.weight.copy_(_compensated(layer.weight, scale, moments))
    parametrize.register_parametrization(layer, "weight", _Rounded(scale))


def _moments(layer: nn.Conv2d, inputs: Tensor) -> Tensor:
    """Σ x xᵀ over the inputs x that meet the T weights of one output channel, for each group: (G, T, T)."""
    size, more = layer.kernel_size, {"padding": layer.padding, "stride": layer.stride, "dilation": layer.dilation}
    total = torch.zeros((), dtype=torch.float64)
    for some in inputs.split(4):
        x = F.unfold(some, size, **more).unflatten(1, (layer.groups, -1)).double()
        total = total + (x @ x.mT).sum(0)
    return total


def _compensated(weight: Tensor, scale: Tensor, moments: Tensor) -> Tensor:
    """Rounded weights whose outputs are close to the unrounded ones on inputs with these moments.

    One weight after the other is rounded, and those still to come are moved to where the sum is least wrong (Frantar et
    al., GPTQ, 2023): neighbouring inputs are alike, so that what one weight loses another can carry.
    """
    groups, taps = moments.shape[:2]
    size = moments.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(moments + (1e-3 * size + 1e-9) * torch.eye(taps)))
    upper = torch.linalg.cholesky(inverse, upper=True)[:, None]
    left = weight.double().reshape(groups, -1, taps)
    step, rounded = scale.double().reshape(groups, -1), []
    for i in range(taps):
        rounded.append((left[..., i] / step).round().clamp(-_LARGEST_WEIGHT, _LARGEST_WEIGHT) * step)
        lost = (left[..., i] - rounded[-1]) / upper[..., i, i]
        left = left - lost[..., None] * upper[..., i, :]
    return torch.stack(rounded, -1).reshape(weight.shape).float()


def _rounded(step: float, low: int, high: int, _: nn.Module, given: tuple[Tensor, ...]) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(given[0], step, 0, low, high)


class _Rounded(nn.Module):
    """Weights (out, ...), rounded to at most 64 steps of each output channel's scale."""

    def __init__(self, scale: Tensor) -> None:
        super().__init__()
        self.scale = scale
        self.zero = torch.zeros_like(self.scale, dtype=torch.int32)

    def forward(self, weight: Tensor) -> Tensor:
        ends = (-_LARGEST_WEIGHT, _LARGEST_WEIGHT)
        return torch.fake_quantize_per_channel_affine(weight, self.scale, self.zero, 0, *ends)


@contextmanager
def _hooked(trunk: nn.Module, hook: Callable[..., Tensor | None]) -> Iterator[None]:
    """Calls the hook after each convolution."""
    layers: Iterable[nn.Module] = (module for module in trunk.modules() if isinstance(module, nn.Conv2d))
    handles = [layer.register_forward_hook(hook) for layer in layers]
    yield
    for handle in handles:
        handle.remove()


def _array(views: Tensor) -> NDArray[Any]:
    views = views.detach().cpu()
    return (views.float() if views.is_floating_point() else views).numpy()  # NumPy has no bfloat16
