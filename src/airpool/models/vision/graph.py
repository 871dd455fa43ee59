"""A rounded trunk as an ONNX graph that ONNX Runtime computes in whole numbers. Needs onnx (extra `bundle`).

torch exports the rounding as QuantizeLinear and DequantizeLinear around each convolution. ONNX Runtime makes kernels in
whole numbers of those whose result is rounded again. The others, as the last of a residual branch, it would compute
in float32: here they become products in whole numbers with a result in float32, so that nothing is rounded that torch
does not round.
"""

import io
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from airpool._support.extras import load
from airpool.models.vision.int8 import onnxruntime

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
