"""The trunk in whole numbers, for devices without an accelerator: eight bits, run by OpenVINO (extra `int8`).

A convolution, batch norm folded into it, reads whole numbers x from 0 to 255 and has weights w from -64 to 64:

    y = scale · limit / 255 · Σ w x + bias        scale, bias: one per output channel; limit: of what comes in

Processors without VNNI (Intel before 2019, AMD before 2022) add two products in 16 bits and cut what exceeds them:
2 · 255 · 64 just fits, so the result is the same on all of them.

ReLU follows; then all is rounded to 255 steps of the layer's own limit, the last map excepted, which stays float32.
Views have the limit 1, so those kept as bytes lose nothing. Limits and biases are fitted to calibration views: they
should look like what the devices will see, and must not be those that the trunk is tested on.

OpenVINO reports to its maker whenever it is imported. Not from here: its telemetry is hidden from it.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from airpool import files
from airpool.version import __version__

Module = TypeVar("Module", bound=nn.Module)

_FORMAT = "airpool int8 trunk 1"
_STEPS = 255
_LARGEST_WEIGHT = 64


@dataclass(frozen=True, eq=False)
class Layer:
    """One convolution of the trunk and the ReLU after it."""

    weight: Tensor  # (out, in, 3, 3) int8, from -64 to 64
    scale: Tensor  # (out,) float32, what a weight of 1 is worth
    bias: Tensor  # (out,) float32
    limit: float | None  # the largest value that comes out, in 255 steps; None: any, in float32
    pool: bool  # whether the maximum of every 2 × 2 is all that goes on


class Int8Trunk(nn.Module):
    """Takes the place of a trunk: views (B, C, H, H) in [0, 1] to maps (B, 512, 7, 7), never negative, no gradient.

    Holds for: the CPU, and one call at a time. A batch size seen for the first time takes longer.

        model.features = nn.Sequential(quantise(model.features, views))
    """

    def __init__(self, layers: Sequence[Layer], *, resolution: int, threads: int | None = None) -> None:
        """threads: how many compute, by default as many as torch would use."""
        super().__init__()
        self.layers, self.resolution = tuple(layers), resolution
        settings = {
            "INFERENCE_PRECISION_HINT": "f32",  # what is not int8 stays float32, where bfloat16 is there too
            "INFERENCE_NUM_THREADS": torch.get_num_threads() if threads is None else threads,
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # devices that share a machine would all sit on its first cores
        }
        compiled = _openvino().Core().compile_model(_graph(self.layers, resolution), "CPU", settings)
        self._request = compiled.create_infer_request()

    def forward(self, views: Tensor) -> Tensor:
        views = _checked(views.detach(), (self.layers[0].weight.shape[1], self.resolution, self.resolution))
        if len(views) == 0:
            return reference(self.layers, views)
        found = self._request.infer({0: views.contiguous().numpy()}, share_inputs=True)
        return torch.from_numpy(found[0])


def quantise(trunk: nn.Sequential, calibration_views: Tensor, *, threads: int | None = None) -> Int8Trunk:
    """The trunk in whole numbers, fitted to calibration_views (N, C, H, H) in [0, 1]; a hundred or so are enough."""
    _openvino()  # is missed before the work, not after it
    return Int8Trunk(fitted(trunk, calibration_views), resolution=calibration_views.shape[-1], threads=threads)


@torch.no_grad()
def fitted(trunk: nn.Sequential, calibration_views: Tensor) -> tuple[Layer, ...]:
    """The trunk's layers in whole numbers, first to last, as in eval mode; the trunk itself is left as it is.

    Each limit is the largest value seen: cutting off even one in ten thousand costs more than finer steps gain. Each
    bias makes up for what all rounding before it moves the mean of its channel by. Takes 10 MB a view at 112 px.
    Edge case: a layer out of which nothing comes has the limit 1.
    """
    views = _checked(calibration_views.detach(), (*calibration_views.shape[1:2], *calibration_views.shape[-1:] * 2))
    if len(views) == 0:
        raise ValueError("calibration_views holds no view")
    folded = list(_folded(trunk))
    layers: list[Layer] = []
    exact, rounded = views, _rounded(views, 1.0)
    for index, (weight, bias, pool) in enumerate(folded):
        scale = weight.abs().amax((1, 2, 3)).clamp(min=1e-12) / _LARGEST_WEIGHT
        whole = (weight / scale[:, None, None, None]).round().to(torch.int8).contiguous()
        plain = Layer(whole, scale, bias, None, pool=False)
        exact, rounded = F.conv2d(exact, weight, bias, padding=1), _convolved(rounded, plain)
        moved = (exact - rounded).mean((0, 2, 3))
        exact, rounded = exact.relu_(), rounded.add_(moved[:, None, None]).relu_()
        limit = float(exact.max()) or 1.0 if index + 1 < len(folded) else None
        layers.append(Layer(whole, scale, bias + moved, limit, pool))
        exact, rounded = _passed(exact, None, pool), _passed(rounded, limit, pool)
    return tuple(layers)


@torch.no_grad()
def reference(layers: Sequence[Layer], views: Tensor) -> Tensor:
    """Maps (B, 512, 7, 7) that the layers make of views (B, C, H, H), by torch's float32: slow, without OpenVINO."""
    values = _rounded(views, 1.0)
    for layer in layers:
        values = _passed(_convolved(values, layer).relu_(), layer.limit, layer.pool)
    return values


def save(path: Path, trunk: Int8Trunk) -> None:
    """The trunk's file (safetensors, 9 MB), whole or not at all. It holds the layers, nothing of OpenVINO's."""
    from safetensors.torch import save as serialised

    tensors: dict[str, Tensor] = {}
    for index, layer in enumerate(trunk.layers):
        tensors |= {f"{index}.weight": layer.weight, f"{index}.scale": layer.scale, f"{index}.bias": layer.bias}
    about = {"format": _FORMAT, "version": __version__, "resolution": trunk.resolution}
    about |= {"limits": [layer.limit for layer in trunk.layers], "pools": [layer.pool for layer in trunk.layers]}
    files.write(path, serialised(tensors, metadata={"about": json.dumps(about)}))


def load(path: Path, *, threads: int | None = None) -> Int8Trunk:
    """What `save` wrote: its maps are the same to the last bit."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:  # pyright: ignore[reportPrivateImportUsage]
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: damaged, or no safetensors file ({error})") from None
    if about.get("format") != _FORMAT:
        raise ValueError(f"{path}: holds no int8 trunk; airpool.models.int8.save writes them")
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{path}: {name} is not finite; save the trunk again")
    layers = [
        Layer(tensors[f"{index}.weight"], tensors[f"{index}.scale"], tensors[f"{index}.bias"], limit, pool)
        for index, (limit, pool) in enumerate(zip(about["limits"], about["pools"], strict=True))
    ]
    return Int8Trunk(layers, resolution=about["resolution"], threads=threads)


def _folded(trunk: nn.Sequential) -> Iterator[tuple[Tensor, Tensor, bool]]:
    """Weight and bias of each convolution, with the batch norm after it folded in, and whether a pool follows."""
    modules = list(trunk)

    def taken(kind: type[Module]) -> Module | None:
        found = modules[0] if modules else None
        return modules.pop(0) if isinstance(found, kind) else None  # pyright: ignore[reportReturnType]

    while modules:
        convolution, norm, relu, pool = taken(nn.Conv2d), taken(nn.BatchNorm2d), taken(nn.ReLU), taken(nn.MaxPool2d)
        if convolution is None or relu is None or not _plain(convolution) or (pool and pool.kernel_size != 2):
            raise ValueError("only VGG11's trunk can be put into whole numbers: 3 × 3 convolutions, each with a ReLU")
        weight, bias = convolution.weight, convolution.bias
        if norm is not None:
            statistics = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
            weight, bias = fuse_conv_bn_weights(weight, bias, *statistics)  # pyright: ignore[reportArgumentType]
        bias = torch.zeros(len(weight)) if bias is None else bias
        yield weight.detach().float().cpu(), bias.detach().float().cpu(), pool is not None


def _plain(convolution: nn.Conv2d) -> bool:
    """Whether it is 3 × 3 and keeps the size of its map."""
    settings = (convolution.kernel_size, convolution.stride, convolution.padding, convolution.dilation)
    return settings == ((3, 3), (1, 1), (1, 1), (1, 1)) and convolution.groups == 1


def _checked(views: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The views as float32 (B, *shape), if that is what they are, on the CPU and within [0, 1]."""
    if views.ndim != 4 or views.shape[1:] != shape or not views.is_floating_point() or views.is_cuda:
        what = f"{views.dtype} {tuple(views.shape)} on {views.device}"
        raise ValueError(f"views is {what}: must be floats (B, {', '.join(map(str, shape))}) on the CPU")
    views = views.float()
    if len(views):
        values = views.numpy()  # torch would wake its threads for this, and they get in the way of OpenVINO's
        if not (values.min() >= 0 and values.max() <= 1):
            span = f"from {values.min():.4g} to {values.max():.4g}"
            raise ValueError(f"views {span}: must lie in [0, 1]; bytes divided by 255")
    return views


def _rounded(values: Tensor, limit: float) -> Tensor:
    """Values from 0 to the limit, in 255 steps."""
    return (values * (_STEPS / limit)).round_().clamp_(max=_STEPS).mul_(limit / _STEPS)


def _convolved(values: Tensor, layer: Layer) -> Tensor:
    return F.conv2d(values, layer.weight * layer.scale[:, None, None, None], layer.bias, padding=1)


def _passed(values: Tensor, limit: float | None, pool: bool) -> Tensor:
    """What goes on to the next layer."""
    values = F.max_pool2d(values, 2) if pool else values
    return values if limit is None else _rounded(values, limit)


def _graph(layers: Sequence[Layer], resolution: int) -> Any:
    """The layers as OpenVINO reads them: it finds the whole numbers by itself, and fuses each layer into one step."""
    import numpy as np

    ov = _openvino()
    op = ov.opset13

    def steps(value: Any, limit: float) -> Any:
        ends = [np.float32(0), np.float32(limit)]
        return op.fake_quantize(value, *ends, *ends, _STEPS + 1)

    views = op.parameter([-1, layers[0].weight.shape[1], resolution, resolution], np.float32)
    value = steps(views, 1.0)
    for layer in layers:
        whole = op.convert(op.constant(layer.weight.numpy()), np.float32)
        weight = op.multiply(whole, op.constant(layer.scale[:, None, None, None].numpy()))
        value = op.convolution(value, weight, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1])
        value = op.relu(op.add(value, op.constant(layer.bias[:, None, None].numpy())))
        value = value if layer.limit is None else steps(value, layer.limit)
        if layer.pool:
            value = op.max_pool(value, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)
    return ov.Model([value], [views], "trunk")


@cache
def _openvino() -> Any:
    """OpenVINO, silent, and kept from AMX."""
    # It takes a stub that sends nothing where its telemetry package is not to be had: from now on, in this process.
    sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType]
    # Some virtual machines advertise AMX and trap on it. Where AMX works, set this to DEFAULT, for speed.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    try:
        import openvino  # pyright: ignore[reportMissingImports]
    except ImportError as missing:
        raise ImportError(f"trunks in int8 need OpenVINO ({missing}): pip install 'airpool[int8]'") from None
    return openvino
