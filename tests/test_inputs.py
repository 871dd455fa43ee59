"""What enters from outside is checked: bad files, arrays and arguments end in one clear error, never in a number."""

# Wrong types are what these tests are about.
# pyright: reportArgumentType=false

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import airpool
from airpool import Claim, Network, Threshold, calibrate, guarantee, load, write_network
from airpool.account import theorem1
from airpool.evaluation.design import clipping
from airpool.evaluation.design import weights as weighting
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.models import weights
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.dense import CodecShape
from airpool.models.codecs.training import initial
from airpool.models.latents import Latents, read
from airpool.protocol.inference import infer_features
from airpool.protocol.simulation import receive
from airpool_lab.theory.prediction import linear_for, predict
from airpool_lab.theory.server import LayeredServer

NET = Network.uniform(num_devices=3, dimension=4)
TEXT: Any = "2"
HALF: Any = (0.5,)
NUMPY: dict[str, Any] = {"server": np.eye(4), "rng": np.random.default_rng(0)}
LATENTS, LABELS = torch.eye(4)[:, None, :].repeat(1, 3, 1), torch.arange(4)
ARRAY: Any = LATENTS.numpy()


def own(tmp_path, **changes):
    """A file of latents with a classifier, and posteriors that are distributions."""
    tensors = {
        "latents": LATENTS.clone(),
        "labels": LABELS.clone(),
        "classifier": torch.eye(4),
        "bias": torch.zeros(4),
        "posteriors": torch.full((4, 3, 4), 0.25),
    }
    save_file({name: tensor for name, tensor in (tensors | changes).items() if tensor is not None}, tmp_path / "own.st")
    return tmp_path / "own.st"


def spoilt(tensor, value):
    tensor = tensor.clone()
    tensor.view(-1)[-1] = value
    return tensor


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"latents": spoilt(LATENTS, torch.nan)}, r"latents\[3, 2, 3\]=nan must be finite"),
        ({"latents": spoilt(LATENTS, torch.inf)}, r"latents\[3, 2, 3\]=inf must be finite"),
        ({"latents": LATENTS.double() * 1e300}, r"latents\[0, 0, 0\]=inf must be finite"),
        (
            {"latents": LATENTS.to(torch.int8), "step": torch.tensor([torch.nan])},
            r"step is \[nan\], must be one number",
        ),
        ({"latents": LATENTS.to(torch.int8), "step": torch.ones(2)}, r"step is \[1.0, 1.0\], must be one number"),
        ({"classifier": spoilt(torch.eye(4), torch.nan)}, r"classifier\[3, 3\]=nan must be finite"),
        ({"bias": spoilt(torch.zeros(4), torch.inf)}, r"bias\[3\]=inf must be finite"),
        ({"classifier": None}, "bias is there without a classifier"),
        ({"labels": spoilt(LABELS, 4)}, r"classifier has shape \(4, 4\), must be \(C, 4\) with C ≥ 5"),
        ({"labels": spoilt(LABELS, -1)}, "labels has -1, must be ≥ 0"),
        ({"posteriors": spoilt(torch.full((4, 3, 4), 0.25), torch.nan)}, r"posteriors\[3, 2, 3\]=nan must be finite"),
        ({"posteriors": spoilt(torch.full((4, 3, 4), 0.25), -0.25)}, r"posteriors\[3, 2, 3\]=-0.25 must be ≥ 0"),
        ({"posteriors": torch.full((4, 3, 4), 0.5)}, r"the sum of posteriors\[0, 0\]=2 must be 1"),
        ({"posteriors": torch.ones(4, 3, 1)}, r"posteriors has shape \(4, 3, 1\), must be \(4, 3, L\), L ≥ 2"),
    ],
)
def test_a_file_of_latents_is_checked_when_it_enters(changes, message, tmp_path, refused):
    path = own(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        read(path)
    assert str(path) in refused("evaluate", "--latents", path, "--trials", 1)


def test_a_good_file_of_latents_enters(tmp_path):
    assert read(own(tmp_path, posteriors=torch.full((4, 3, 4), 0.25).half())).posteriors is not None


def test_weights_that_are_not_finite_are_refused_by_name(tmp_path):
    codecs.save(tmp_path / "good.safetensors", initial(CodecShape(hidden=2, server_hidden=2)), {})
    tensors = load_file(tmp_path / "good.safetensors")
    tensors["decoder.out.bias"][0] = torch.nan
    save_file(tensors, tmp_path / "bad.safetensors", metadata={"about": '{"codec": {}}'})
    for read_weights in (weights.read, codecs.load):
        with pytest.raises(ValueError, match=r"bad\.safetensors: decoder\.out\.bias is not finite"):
            read_weights(tmp_path / "bad.safetensors")


VIEWS = torch.zeros(1, 12, 2, 224, 224, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("views", "error", "message"),
    [
        (VIEWS.numpy(), TypeError, "views is of type ndarray, must be a torch tensor"),
        (VIEWS.tolist(), TypeError, "views is of type list, must be a torch tensor"),
        (VIEWS[:, :, [0, 0, 0]], ValueError, r"views has shape \(1, 12, 3, 224, 224\), must be \(N, K, 2, 224, 224\)"),
        (VIEWS[0], ValueError, r"views has shape \(12, 2, 224, 224\), must be \(N, K, 2, 224, 224\)"),
        (VIEWS[:, :, :, :64], ValueError, r"must be \(N, K, 2, 224, 224\)"),
        (VIEWS[..., ::2, ::2], ValueError, r"views has shape \(1, 12, 2, 112, 112\), must be \(N, K, 2, 224, 224\)"),
        (VIEWS[:, :0], ValueError, r"views has shape \(1, 0, 2, 224, 224\), must be \(N, K, 2, 224, 224\)"),
        (VIEWS.long(), ValueError, "views is torch.int64, must be uint8, or floating numbers from 0 to 1"),
        (VIEWS.float() + 200, ValueError, r"views\[0, 0, 0, 0, 0\]=200 must be from 0 to 1 \(bytes"),
        (VIEWS.float() - 1, ValueError, "=-1 must be from 0 to 1"),
        (spoilt(VIEWS.float(), torch.nan), ValueError, r"views\[0, 11, 1, 223, 223\]=nan must be from 0 to 1"),
    ],
)
def test_views_are_checked_when_they_enter(views, error, message):
    net, rng = Network.uniform(num_devices=12, dimension=40), torch.Generator()
    with pytest.raises(error, match=message):
        airpool.infer(load(), views, network=net, rng=rng)


def test_views_of_a_file_are_checked_when_they_enter(tmp_path, refused):
    save_file({"views": VIEWS[:, :, [0, 0, 0]].contiguous(), "labels": torch.zeros(1).long()}, tmp_path / "rgb.st")
    error = refused("evaluate", "--views", tmp_path / "rgb.st", "--trials", 1)
    assert f"{tmp_path / 'rgb.st'}: views has shape (1, 12, 3, 224, 224), must be (N, K, 2, 224, 224)" in error
    assert f"{tmp_path}: a folder, must be a safetensors file" in refused("evaluate", "--views", tmp_path)


def nan_logits(x):
    return x * np.nan


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"server": None},
            TypeError,
            "server is of type NoneType, must be a function, a torch module or a NumPy",
        ),
        ({"server": np.eye(4).tolist()}, TypeError, r"server\[0\] is of type list, must be a function"),
        ({"server": torch.eye(4)}, TypeError, "server is of type Tensor, .* a NumPy matrix"),
        ({"server": np.full((4, 4), np.nan)}, ValueError, r"server\[0, 0\]=nan must be finite"),
        ({"server": [np.full((4, 4), np.inf), np.eye(4)]}, ValueError, r"server\[0\]\[0, 0\]=inf must be finite"),
        ({"encoder": np.full((4, 4), np.nan)}, ValueError, r"encoder\[0, 0\]=nan must be finite"),
        ({"server": nan_logits}, ValueError, "logits that are NaN: its parameters must be finite"),
        (
            {"features": LATENTS.tolist()},
            TypeError,
            "features is of type list, must be a NumPy array or a torch tensor",
        ),
        (
            {"network": "net.toml"},
            TypeError,
            r"network is of type str, must be a Network \(read_network reads a file\)",
        ),
        ({"rng": None}, ValueError, "rng=None must be a numpy.random.Generator"),
        ({"rng": torch.Generator()}, ValueError, "must be a numpy.random.Generator"),
    ],
)
def test_an_inference_names_the_argument_that_is_wrong(change, error, message):
    given = {"features": LATENTS.numpy().astype(np.float64), "network": NET, **NUMPY} | change
    with pytest.raises(error, match=message):
        infer_features(given.pop("features"), given.pop("network"), **given)


def test_torch_matrices_of_another_type_are_named():
    with pytest.raises(ValueError, match=r"server is torch\.float64 on cpu, must be torch\.float32"):
        infer_features(LATENTS, NET, server=torch.eye(4).double(), rng=torch.Generator())
    with pytest.raises(TypeError, match=r"server is of type ndarray, .* a torch matrix"):
        infer_features(LATENTS, NET, server=np.eye(4), rng=torch.Generator())


def test_a_live_feature_that_is_not_finite_is_still_sent_as_nothing():
    latents = np.full((2, 3, 4), np.nan)
    out = infer_features(latents, NET, encoder=np.eye(4), **NUMPY)
    assert np.all(out.label >= 0)
    silent = Network.uniform(num_devices=3, dimension=4, noise_std=0.0)
    assert np.all(receive(latents, silent, rng=np.random.default_rng(0)).estimate == 0)


SCORED = replace(NET, scheme=Threshold())


def by_class(_level):
    return lambda estimate: estimate


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"latents": LATENTS.tolist()}, TypeError, "latents is of type list, must be a torch tensor"),
        ({"labels": LABELS.float()}, ValueError, "labels are torch.float32, must be whole numbers"),
        ({"labels": LABELS + 1}, ValueError, "labels has 4, must be below 4, the number of the server's classes"),
        ({"labels": LABELS - 1}, ValueError, "labels has -1, must be ≥ 0"),
        ({"network": "net.toml"}, TypeError, "network is of type str"),
        ({"seed": -1}, ValueError, "seed=-1 must be a whole number >= 0"),
        ({"server": lambda _: lambda x: x * torch.nan}, ValueError, "logits that are NaN"),
        ({"latents": LATENTS * torch.nan}, ValueError, r"latents\[0, 0, 0\]=nan must be finite"),
        ({"latents": spoilt(LATENTS, torch.inf)}, ValueError, r"latents\[3, 2, 3\]=inf must be finite"),
        (
            {"vote": (spoilt(LATENTS, torch.nan), by_class)},
            ValueError,
            r"vote\[3, 2, 3\]=nan must be finite",
        ),
        (
            {"network": SCORED, "posteriors": torch.full((4, 3, 4), torch.nan)},
            ValueError,
            r"posteriors\[0, 0, 0\]=nan must be finite",
        ),
        (
            {"network": SCORED, "scores": torch.full((4, 3), torch.nan), "num_classes": 4},
            ValueError,
            r"scores\[0, 0\]=nan must be finite",
        ),
    ],
)
def test_an_evaluation_names_the_argument_that_is_wrong(change, error, message):
    given: dict[str, Any] = {"latents": LATENTS, "labels": LABELS, "server": by_class, "trials": 1} | change
    how = {name: given.pop(name) for name in ("trials", "seed") if name in given}
    network = given.pop("network", NET)
    with pytest.raises(error, match=message):
        evaluate(EncodedObjects(**given), network, **how)


def test_an_evaluation_says_what_it_takes_instead_of_a_network():
    with pytest.raises(TypeError, match=r"model is of type Network, must be a model .*EncodedObjects"):
        evaluate(NET, LATENTS)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "call",
    [
        lambda z: predict(NET, z, LABELS.numpy(), server=lambda _: LayeredServer(((np.eye(4), np.zeros(4)),))),
        lambda z: linear_for(NET, z, LABELS.numpy(), num_classes=4),
        lambda z: weighting.design(
            replace(NET, devices=replace(NET.devices, noise_std=0.5)), z, epsilon=9.0, target=np.zeros((4, 4))
        ),
        lambda z: clipping.design(
            replace(NET, devices=replace(NET.devices, noise_std=0.5)), z, epsilon=9.0, target=np.zeros((4, 4))
        ),
    ],
    ids=["predict", "linear_for", "weights", "clipping"],
)
def test_whatever_is_judged_by_latents_refuses_those_that_are_not_finite(call, value):
    latents = LATENTS.numpy().astype(np.float64)
    latents[1, 2, 3] = value
    with pytest.raises(ValueError, match=rf"latents\[1, 2, 3\]={value} must be finite"):
        call(latents)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: guarantee(NET, TEXT), TypeError, "claim is of type str, must be a Claim"),
        (lambda: guarantee(TEXT), TypeError, "network is of type str, must be a Network"),
        (lambda: Claim(colluding=HALF), ValueError, r"colluding\[0\]=0\.5 must be a whole number"),
        (lambda: Claim(delta=TEXT), ValueError, "delta='2' must be a number"),
        (lambda: calibrate(TEXT, epsilon=2.0), TypeError, "network is of type str"),
        (lambda: calibrate(NET, epsilon=TEXT), ValueError, "epsilon='2' must be a number or a list of numbers"),
        (lambda: calibrate(NET, epsilon=[TEXT] * 3), ValueError, "must be a number or a list of numbers"),
        (lambda: theorem1.calibrate(NET, epsilon=TEXT), ValueError, "epsilon='2' must be a number"),
        (lambda: write_network(TEXT, "copy.toml"), TypeError, "network is of type str"),
        (lambda: load(cast(Any, 40)), TypeError, "name is of type int"),
        (lambda: load("imagenet"), ValueError, "no pretrained model 'imagenet': there is modelnet40"),
        (
            lambda: airpool.infer(TEXT, VIEWS, network=NET, rng=torch.Generator()),
            TypeError,
            "model is of type str",
        ),
        (
            lambda: airpool.infer(load(), VIEWS, network=TEXT, rng=torch.Generator()),
            TypeError,
            "network is of type",
        ),
        (lambda: Latents(ARRAY, LABELS), TypeError, "latents is of type ndarray, must be a torch tensor"),
        (lambda: receive(LATENTS.tolist(), NET, rng=np.random.default_rng(0)), TypeError, "latents is of type list"),
    ],
)
def test_the_python_interface_names_the_argument_that_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "command",
    ["audit --devices 2", "demo", "evaluate", "plan --epsilon 2", "reproduce table-1", "sweep epsilon", "theory"]
    + [f"train {what} meshes.npz --out models" for what in ("trunk", "head --trunk t", "codec --trunk t", "all")],
)
@pytest.mark.parametrize("seed", ["-1", str(2**63), "1.5"])
def test_every_command_refuses_a_seed_that_no_generator_takes(command, seed, refused):
    assert "--seed" in refused(*command.split(), "--seed", seed)


def test_a_codec_beside_latents_that_bring_a_classifier_is_refused(tmp_path, refused):
    said = refused("evaluate", "--latents", own(tmp_path), "--codec", "compact", "--trials", 1)
    assert "brings a classifier, so --codec compact has nothing to decode: leave one out" in said


def test_a_network_of_another_dimension_is_told_the_codecs_and_the_flag(tmp_path, refused):
    write_network(Network.uniform(num_devices=12), tmp_path / "net.toml")
    said = refused("evaluate", "--network", tmp_path / "net.toml", "--trials", 1)
    assert "net.toml has dimension 64, the codec vote needs 40: calibrate with --dimension 40" in said
    said = refused("evaluate", "--network", tmp_path / "net.toml", "--codec", "q16", "--trials", 1)
    assert "the codec q16 needs 784: calibrate with --dimension 784" in said
    said = refused("evaluate", "--network", tmp_path / "net.toml", "--latents", own(tmp_path), "--trials", 1)
    assert "own.st needs 4: calibrate with --dimension 4" in said


@pytest.mark.parametrize("std", ["1e80", "1e300", "1e-300"])
def test_the_command_line_names_a_number_out_of_range(std, refused):
    assert f"--noise-std {std}" in refused("epsilon", "--devices", 12, "--noise-std", std)
