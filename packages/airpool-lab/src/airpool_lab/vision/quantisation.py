"""Any trunk in int8: every convolution but the first few has integers as inputs and weights; all else stays float32.

    y = scale · step · Σ w x + bias        scale, bias: one per output channel; step: of the input

The inputs x go from 0 to 255, less a zero point where they may be negative; the weights w from -64 to 64. Processors
without VNNI (Intel before 2019, AMD before 2022) add two products in saturating 16 bits: 2 · 255 · 64 just fits, so the
result is the same on all of them. Depthwise convolutions add one product at a time: theirs go to 127. Steps and biases
are fitted to calibration views, which must not be those that the trunk is tested on.

torch exports the rounding as QuantizeLinear and DequantizeLinear around each convolution. ONNX Runtime makes kernels in
whole numbers of those whose result is rounded again. The others, as the last of a residual branch, it would compute
in float32: here they become products in whole numbers with a result in float32, so that nothing is rounded that torch
does not round.
"""

import copy
import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from airpool._support.extras import load
from airpool.models.vision.int8 import Int8Trunk, checked, onnxruntime

_LARGEST_WEIGHT = 64
_LARGEST_ALONE = 127  # of depthwise convolutions, which add one product at a time
_MOST_TAPS = 2048  # of an output channel whose weights make up for each other
_FEW_TAPS = 49  # of an output channel whose scale is chosen
_PLACES = 400  # of each view, where inputs are seen
_SHARES = (0.7, 0.8, 0.9, 1.0)  # of the scale that covers the largest weight
_DAMPING = 1e-3
_FLOAT_WORK = 0.14  # share of all products that stays float32, at the start
_EVENED = 0.5  # how far the ranges of an input's channels are made alike


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
    require()  # fails before the work if something is not installed
    rounded = fitted(trunk, calibration_views)
    return Int8Trunk(written(rounded, tuple(calibration_views.shape[1:])), threads=threads)


@torch.no_grad()
def fitted(trunk: nn.Module, calibration_views: Tensor) -> nn.Module:
    """A copy of the trunk, in eval mode, that computes what int8 computes in float32: slow, for `quantise` to convert.

    Each step covers the largest value seen: clipping costs more than finer steps gain. Weights are rounded one after
    the other, each making up for those before it. Each bias corrects the shift of its channel's mean by all rounding
    before it. Takes 10 MB a view.
    """
    views = torch.from_numpy(checked(_array(calibration_views), tuple(calibration_views.shape[1:])))
    views = views.contiguous(memory_format=torch.channels_last)  # several times faster
    if len(views) == 0:
        raise ValueError("calibration_views holds no view")
    rounded = copy.deepcopy(trunk).float().cpu().eval().requires_grad_(False)
    means: dict[nn.Conv2d, Tensor] = {}  # of each output channel, in float32; in the order of the forward pass
    work: dict[nn.Conv2d, int] = {}  # products of one view
    inputs: dict[nn.Conv2d, tuple[Tensor, Tensor]] = {}
    moments: dict[nn.Conv2d, Tensor | None] = {}

    def see(layer: nn.Conv2d, given: tuple[Tensor, ...], output: Tensor) -> None:
        if layer in means:
            raise ValueError("an nn.Conv2d that is used twice cannot be put into int8: each has one step and one bias")
        if not output.isfinite().all():
            raise ValueError("the trunk's maps are not finite on calibration_views")
        means[layer], inputs[layer] = output.mean((0, 2, 3)), (given[0].amin((0, 2, 3)), given[0].amax((0, 2, 3)))
        moments[layer] = _moments(layer, given[0]) if len(means) > 1 else None
        work[layer] = output[0].numel() * layer.weight[0].numel()

    def correct(layer: nn.Conv2d, _: tuple[Tensor, ...], output: Tensor) -> Tensor:
        shift = means[layer] - output.mean((0, 2, 3))
        layer.bias = nn.Parameter(shift if layer.bias is None else layer.bias + shift, requires_grad=False)
        return output + shift[:, None, None]

    with _hooked(rounded, see):
        rounded(views)
    if len(means) < 2:
        raise ValueError("the trunk has fewer than two nn.Conv2d: there is nothing to put into int8")
    for layer in list(means)[_kept(list(work.values())) :]:
        _round(layer, *inputs[layer], moments[layer])
    with _hooked(rounded, correct):
        rounded(views)
    return rounded


def _kept(work: list[int]) -> int:
    """The number of convolutions that stay float32: the first, and those after it while all of them are cheap together.

    The others pass on whatever these lose: of EfficientNet-Lite2's error more than half came from the first three that
    were rounded.
    """
    return max(1, sum(sum(work[: i + 1]) <= _FLOAT_WORK * sum(work) for i in range(len(work))))


def _round(layer: nn.Conv2d, low: Tensor, high: Tensor, moments: Tensor | None) -> None:
    """Rounds the layer's weights, and its inputs, whose channels lie in these ranges, in steps that cover them."""
    shares = _shares(low, high) if layer.groups == 1 and low.min() < 0 else None
    if shares is not None:
        low, high = low / shares, high / shares
        layer.weight.mul_(shares[:, None, None])
        each = shares.double().repeat_interleave(layer.weight[0, 0].numel())
        moments = None if moments is None else moments / (each * each[:, None])
    smallest = min(float(low.min()), 0.0)
    step = (max(float(high.max()), 0.0) - smallest) / 255 or 1.0
    layer.register_forward_pre_hook(partial(_rounded, step, round(-smallest / step), shares))
    alone = layer.groups == layer.in_channels == layer.out_channels
    most = _LARGEST_ALONE if alone else _LARGEST_WEIGHT
    scale = layer.weight.flatten(1).abs().amax(1).clamp(min=1e-12) / most
    if moments is not None:
        weight, scale = _best(layer.weight, scale, moments, most)
        layer.weight.copy_(weight)
    parametrize.register_parametrization(layer, "weight", _Rounded(scale))


def _shares(low: Tensor, high: Tensor) -> Tensor:
    """Numbers (C,) to divide the channels of an input by, so that wide ones do not cost narrow ones their steps.

    The weights are multiplied by them: with the whole ratio of the ranges theirs would lose as much (Xiao et al.,
    SmoothQuant, 2023).
    """
    reach = torch.maximum(low.abs(), high.abs())
    return (reach / reach.max()).clamp(min=1e-3) ** _EVENED


def _moments(layer: nn.Conv2d, inputs: Tensor) -> Tensor | None:
    """Covariance of the T inputs that meet the weights of one output channel, for each group: (G, T, T).

    Seen at evenly spaced places, some 400 of each view. None where it would be too large, or padding is not known.
    """
    if isinstance(layer.padding, str) or layer.weight[0].numel() > _MOST_TAPS:
        return None
    places = inputs.shape[2] * inputs.shape[3] / (layer.stride[0] * layer.stride[1])
    stride = tuple(each * max(1, round((places / _PLACES) ** 0.5)) for each in layer.stride)
    seen, total, square = 0, torch.zeros(()), torch.zeros(())
    for some in inputs.split(8):
        x = F.unfold(some, layer.kernel_size, layer.dilation, layer.padding, stride).unflatten(1, (layer.groups, -1))
        x = x.permute(1, 2, 0, 3).flatten(2).double()
        seen, total, square = seen + x.shape[-1], total + x.sum(-1), square + x @ x.mT
    mean = total / seen
    return square / seen - mean[..., None] * mean[:, None, :]


def _best(weight: Tensor, scale: Tensor, moments: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Rounded weights and their scales: for each output channel the scale, up to this one, with the least error."""
    groups, taps = moments.shape[:2]
    found, least, chosen = weight, torch.full_like(scale, torch.inf, dtype=torch.float64), scale
    for share in _SHARES if taps <= _FEW_TAPS else (1.0,):  # with many, the largest weight is not so far out
        rounded = _compensated(weight, share * scale, moments, most)
        lost = (rounded - weight).double().reshape(groups, -1, taps)
        error = (lost @ moments * lost).sum(-1).flatten()
        better = error < least
        found = rounded.where(better[:, None, None, None], found)
        least, chosen = error.where(better, least), (share * scale).where(better, chosen)
    return found, chosen


def _compensated(weight: Tensor, scale: Tensor, moments: Tensor, most: int) -> Tensor:
    """Rounded weights whose outputs are close to the unrounded ones, but for their mean, on inputs with these moments.

    One weight after the other is rounded, and those still to come are moved to where the sum is least wrong (Frantar et
    al., GPTQ, 2023): neighbouring inputs are alike, so that what one weight loses another can carry.
    """
    groups, taps = moments.shape[:2]
    size = moments.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(moments + (_DAMPING * size + 1e-9) * torch.eye(taps)))
    upper = torch.linalg.cholesky(inverse, upper=True)[:, None]
    left = weight.double().reshape(groups, -1, taps).clone()
    step, rounded = scale.double().reshape(groups, -1), torch.empty_like(left)
    for i in range(taps):
        rounded[..., i] = (left[..., i] / step).round().clamp(-most, most) * step
        lost = (left[..., i] - rounded[..., i]) / upper[..., i, i]
        left[..., i:] -= lost[..., None] * upper[..., i, i:]
    return rounded.reshape(weight.shape).float()


def _rounded(step: float, zero: int, shares: Tensor | None, _: nn.Module, given: tuple[Tensor, ...]) -> Tensor:
    x = given[0] if shares is None else given[0] * (1 / shares)[:, None, None]
    return torch.fake_quantize_per_tensor_affine(x, step, zero, 0, 255)


class _Rounded(nn.Module):
    """Weights (out, ...), rounded to at most 64 steps of each output channel's scale."""

    def __init__(self, scale: Tensor) -> None:
        super().__init__()
        self.scale = scale
        self.zero = torch.zeros_like(self.scale, dtype=torch.int32)

    def forward(self, weight: Tensor) -> Tensor:
        return torch.fake_quantize_per_channel_affine(weight, self.scale, self.zero, 0, -128, 127)


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


_OPSET = 17
_AROUND = [0, 2, 3, 1]  # NCHW to NHWC
_BACK = [0, 3, 1, 2]


def written(rounded: nn.Module, shape: tuple[int, ...]) -> bytes:
    """The ONNX file of a trunk of `quantisation.fitted`: from views (B, *shape) float32 to maps."""
    model = _folded(_exported(rounded, shape))
    graph, tools = _Graph(model.graph), _onnx()
    for node in [each for each in model.graph.node if each.op_type == "Conv"]:
        graph.merge_padding(node)
        if graph.whole(node):
            graph.merge_norm(node)
            if not graph.rounded_again(node):
                graph.replace(node, list(_in_whole_numbers(graph, node)))
    graph.drop_unused()
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    if all(each.domain != "com.microsoft" for each in model.opset_import):
        model.opset_import.append(tools.helper.make_opsetid("com.microsoft", 1))
    return model.SerializeToString()


def require() -> None:
    """An ImportError or ValueError that says what to install, if something is missing."""
    onnxruntime()
    _onnx()


class _Graph:
    """Nodes and constants of an ONNX graph by the names of their results."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.constants = {each.name: each for each in graph.initializer}
        self.maker = {name: node for node in graph.node for name in node.output}

    def users(self, name: str) -> list[Any]:
        return [node for node in self.graph.node if name in node.input]

    def constant(self, name: str) -> np.ndarray:
        return _onnx().numpy_helper.to_array(self.constants[name])

    def add(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = _onnx().numpy_helper.from_array(np.ascontiguousarray(value), name)
        self.graph.initializer.append(self.constants[name])
        return name

    def is_made_by(self, name: str, kind: str) -> bool:
        return name in self.maker and self.maker[name].op_type == kind

    def whole(self, convolution: Any) -> bool:
        """Whether inputs and weights are whole numbers times a step."""
        return all(self.is_made_by(name, "DequantizeLinear") for name in convolution.input[:2])

    def rounded_again(self, convolution: Any) -> bool:
        """Whether the result goes to nothing but rounding, perhaps through a ReLU."""
        users = self.users(convolution.output[0])
        if len(users) == 1 and users[0].op_type in ("Relu", "Clip"):
            users = self.users(users[0].output[0])
        return bool(users) and all(each.op_type == "QuantizeLinear" for each in users)

    def merge_padding(self, convolution: Any) -> None:
        """Padding with zeros before a convolution becomes its own."""
        pad = self.maker.get(convolution.input[0])
        if pad is None or pad.op_type != "Pad" or (len(pad.input) > 2 and pad.input[2] and self.constant(pad.input[2])):
            return
        before, after = np.split(self.constant(pad.input[1]), 2)
        sizes = [*before[2:].tolist(), *after[2:].tolist()]
        own = next(each for each in convolution.attribute if each.name == "pads")
        own.ints[:] = [a + b for a, b in zip(own.ints, sizes, strict=True)]
        convolution.input[0] = pad.input[0]

    def merge_norm(self, convolution: Any) -> None:
        """Batch norm after a convolution in whole numbers goes into its scales, signs and bias."""
        name, (weight, scale, zero) = convolution.output[0], self.maker[convolution.input[1]].input
        users = self.users(name)
        if [each.op_type for each in users] != ["BatchNormalization"]:
            return
        gain, shift, mean, variance = (self.constant(each) for each in users[0].input[1:])
        more = next(each.f for each in users[0].attribute if each.name == "epsilon")
        gain = gain / np.sqrt(variance + np.float32(more))
        bias = self.constant(convolution.input[2]) if len(convolution.input) > 2 else np.float32(0)
        signs = np.sign(gain).astype(np.int8).reshape(-1, 1, 1, 1)
        floor = np.finfo(np.float32).tiny  # a scale must not be 0
        inputs = [
            self.add(f"{name}/signed", self.constant(weight) * signs),
            self.add(f"{name}/gain", np.maximum(self.constant(scale) * np.abs(gain), floor)),
            zero,
        ]
        dequantised = _onnx().helper.make_node("DequantizeLinear", inputs, [f"{name}/weights"], axis=0)
        self.graph.node.insert(list(self.graph.node).index(convolution), dequantised)
        self.maker[f"{name}/weights"] = dequantised
        given = [convolution.input[0], f"{name}/weights", self.add(f"{name}/shift", shift + (bias - mean) * gain)]
        del convolution.input[:]
        convolution.input.extend(given)
        convolution.output[0] = users[0].output[0]
        self.graph.node.remove(users[0])

    def replace(self, node: Any, others: Iterable[Any]) -> None:
        place = list(self.graph.node).index(node)
        for other in others:
            self.graph.node.insert(place, other)
            place += 1
        self.graph.node.remove(node)

    def drop_unused(self) -> None:
        ends = {each.name for each in self.graph.output}
        while True:
            used = ends | {name for node in self.graph.node for name in node.input}
            unused = [node for node in self.graph.node if used.isdisjoint(node.output)]
            if not unused:
                break
            for node in unused:
                self.graph.node.remove(node)
        kept = [each for each in self.graph.initializer if each.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)


def _in_whole_numbers(graph: _Graph, convolution: Any) -> Iterator[Any]:
    """Nodes with the convolution's result in float32, from whole numbers."""
    make, name = _onnx().helper.make_node, convolution.output[0]
    x, step, zero = graph.maker[convolution.input[0]].input
    weight, scale, _ = (graph.constant(each) for each in graph.maker[convolution.input[1]].input)
    bias = graph.constant(convolution.input[2]) if len(convolution.input) > 2 else np.zeros(len(weight), np.float32)
    settings = {each.name: _onnx().helper.get_attribute_value(each) for each in convolution.attribute}
    plain = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4, "group": 1}
    if all(settings.get(key, value) == value for key, value in plain.items()):
        yield make("Transpose", [x], [f"{name}/nhwc"], perm=_AROUND)
        columns = graph.add(f"{name}/weight", weight[:, :, 0, 0].T)
        more = [graph.add(f"{name}/{key}", each) for key, each in (("scale", scale), ("bias", bias))]
        inputs = [f"{name}/nhwc", columns, step, more[0], zero, "", more[1]]
        yield make("MatMulIntegerToFloat", inputs, [f"{name}/product"], domain="com.microsoft")
        yield make("Transpose", [f"{name}/product"], [name], perm=_BACK)
        return
    together = (scale * graph.constant(step)).reshape(-1, 1, 1)
    inputs = [x, graph.add(f"{name}/weight", weight), zero]
    yield make("ConvInteger", inputs, [f"{name}/whole"], **settings)
    yield make("Cast", [f"{name}/whole"], [f"{name}/float"], to=_onnx().TensorProto.FLOAT)
    yield make("Mul", [f"{name}/float", graph.add(f"{name}/scale", together)], [f"{name}/scaled"])
    yield make("Add", [f"{name}/scaled", graph.add(f"{name}/bias", bias.reshape(-1, 1, 1))], [name])


def _exported(rounded: nn.Module, shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated; the newer one does not know fake_quantize
        torch.onnx.export(
            rounded,
            (torch.zeros(1, *shape),),
            file,  # pyright: ignore[reportArgumentType]  # it may be a file
            input_names=["views"],
            output_names=["maps"],
            opset_version=_OPSET,
            dynamo=False,
        )
    return file.getvalue()


def _folded(exported: bytes) -> Any:
    """The model after ONNX Runtime has computed what depends on sizes and weights alone."""
    runtime = onnxruntime()
    with TemporaryDirectory() as folder:
        path, settings = Path(folder, "trunk.onnx"), runtime.SessionOptions()
        settings.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        settings.optimized_model_filepath = str(path)
        runtime.InferenceSession(exported, settings, providers=["CPUExecutionProvider"])
        return _onnx().load(str(path))


@cache
def _onnx() -> Any:
    onnx = load("onnx", "putting a trunk into int8")
    for name in ("helper", "numpy_helper"):
        load(f"onnx.{name}", "putting a trunk into int8")
    return onnx
