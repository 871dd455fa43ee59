"""Trunks in int8: torch says what the rounded layers mean, and ONNX Runtime must compute that, without torch."""

import copy
import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

import airpool
from airpool.models.vision import int8, lite, mvcnn
from airpool.models.vision.views import Cameras
from airpool_lab.vision import cad, quantisation
from airpool_lab.vision.renders import renders
from airpool_lab.vision.runs import some_rows

SIDE = 64  # nothing depends on it, and 224 takes longer
MODELNET = Path(
    os.environ.get("AIRPOOL_MODELNET") or Path(__file__).parents[4] / "../shared/data/modelnet40_meshes.npz.xz"
)


class Own(nn.Module):
    """A backbone that airpool does not know: signed inputs with padding, no batch norm, groups, another activation."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 8, 5, stride=4), nn.Conv2d(8, 12, 3, padding=1, groups=2, bias=False)
        self.last = nn.Conv2d(12, 16, 1)

    def forward(self, views):
        return self.last(nn.functional.silu(self.second(self.first(views) - 0.3)))


BUILDERS = {
    "vgg11": lambda: mvcnn.vgg_trunk(2),
    "vgg11, plain": lambda: mvcnn.vgg_trunk(2, batch_norm=False),
    # The stem and five blocks, with each kind of layer: random weights, unlike trained ones, make all of it chaotic, so
    # that one value rounded to the other side moves the last map by a tenth.
    "lite0": lambda: lite.trunk("lite0", 2)[:8],
    "own": Own,
}


def relative(found, expected):
    found, expected = (torch.as_tensor(each) for each in (found, expected))
    return float((found - expected).norm() / expected.norm())


def as_trained(network):
    """Batch norm that has something to do, and weights that let the signal through."""
    rng = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            state = module.state_dict()
            for name in ("running_mean", "bias"):
                state[name].normal_(std=0.1, generator=rng)
            for name in ("running_var", "weight"):
                state[name].uniform_(0.5, 1.5, generator=rng)
        elif isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=rng)
    return network.eval().requires_grad_(False)


def seen(count, *, side=SIDE, seed=0):
    """Views as they are kept: bytes."""
    shape = (count, 2, side, side)
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module", params=BUILDERS)
def network(request):
    return as_trained(BUILDERS[request.param]())


@pytest.fixture(scope="module")
def rounded(network):
    return quantisation.fitted(network, seen(8))


@pytest.fixture(scope="module")
def engine():
    try:
        quantisation.require()
    except (ImportError, ValueError) as missing:
        pytest.skip(str(missing))


# What rounding means, in torch alone


def test_all_weights_but_the_firsts_are_whole_and_small_enough(network, rounded):
    pairs = [
        (before.weight, after)
        for before, after in zip(network.modules(), _plain(rounded), strict=True)
        if isinstance(before, nn.Conv2d)
    ]
    exact = sum(not parametrize.is_parametrized(layer) for _, layer in pairs)
    assert 1 <= exact <= 2
    assert all(torch.equal(weight, layer.weight) for weight, layer in pairs[:exact])
    for _, layer in pairs[exact:]:
        whole = layer.weight / layer.parametrizations.weight[0].scale[:, None, None, None]
        assert (whole - whole.round()).abs().max() < 1e-3
        alone = layer.groups == layer.in_channels == layer.out_channels
        # Without VNNI, sums of two products of 255 are cut to 16 bits; depthwise convolutions do not add two.
        assert whole.abs().max() <= (127.001 if alone else 64.001)


def test_the_first_convolutions_stay_float32_while_they_are_cheap():
    assert quantisation._kept([50, 50]) == 1  # the first, whatever it costs
    assert quantisation._kept([1, 2, 12, 85]) == 2
    assert quantisation._kept([1, 2, 11, 86]) == 3


@pytest.mark.parametrize("groups", [1, 8])
def test_rounded_weights_make_up_for_each_other_but_for_the_mean(groups):
    rng = torch.Generator().manual_seed(0)
    smooth = F.avg_pool2d(torch.rand(16, 8, 40, 40, generator=rng), 5, stride=1)  # neighbours are alike, as in images
    layer = nn.Conv2d(8, 16, 3, padding=1, groups=groups, bias=False).requires_grad_(False)
    layer.weight.copy_(torch.randn(layer.weight.shape, generator=rng))
    scale = layer.weight.flatten(1).abs().amax(1) / 64
    plain = (layer.weight / scale[:, None, None, None]).round() * scale[:, None, None, None]
    moments = quantisation._moments(layer, smooth[:8])
    assert moments is not None
    better, _ = quantisation._best(layer.weight, scale, moments, 64)

    def error(weight):
        lost = F.conv2d(smooth[8:], weight - layer.weight, padding=1, groups=groups)
        return float((lost - lost.mean((0, 2, 3), keepdim=True)).norm())

    assert error(better) < error(plain) / 1.2


def test_wide_channels_of_an_input_do_not_cost_narrow_ones_their_steps():
    rng = torch.Generator().manual_seed(0)
    spread = torch.logspace(-2, 0, 16)
    first, last = nn.Conv2d(2, 16, 3, bias=False), nn.Conv2d(16, 8, 1, bias=False)
    for layer, ratio in ((first, spread[:, None]), (last, 1 / spread)):  # all channels count alike
        layer.weight.data = torch.randn(layer.weight.shape, generator=rng) * ratio[..., None, None]
    trunk = nn.Sequential(first, last).requires_grad_(False)
    views = torch.rand(16, 2, 16, 16, generator=rng)
    found = quantisation.fitted(trunk, views[:8])
    one_range = copy.deepcopy(trunk)
    step = float(first(views).abs().max()) / 127
    one_range[1].register_forward_pre_hook(lambda _, x: (x[0] / step).round() * step)
    exact = trunk(views[8:])
    assert relative(found(views[8:]), exact) < relative(one_range(views[8:]), exact) / 3


def _plain(network):
    """Its modules without those that round weights."""
    rounding = [module.parametrizations for module in network.modules() if parametrize.is_parametrized(module)]
    inner = {id(part) for each in rounding for part in each.modules()}
    return [module for module in network.modules() if id(module) not in inner]


def test_int8_comes_close_on_views_it_was_not_fitted_to(network, rounded):
    views = seen(4, seed=6) / 255
    assert relative(rounded(views), network(views)) < 0.1


def _keep_means(found, _layer, _given, output):
    found.append(output.mean((0, 2, 3)))


def test_rounding_leaves_the_mean_of_every_channel_where_it_was(network, rounded):
    means = {network: [], rounded: []}
    for each, found in means.items():
        layers = [module for module in each.modules() if isinstance(module, nn.Conv2d)]
        keep = partial(_keep_means, found)
        handles = [layer.register_forward_hook(keep) for layer in layers]
        each(seen(8) / 255)
        for handle in handles:
            handle.remove()
    assert relative(torch.cat(means[rounded]), torch.cat(means[network])) < 1e-3


def test_a_layer_that_is_always_dark_gives_zeros():
    dark = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
    for parameter in dark.requires_grad_(False).parameters():
        parameter.zero_()
    assert quantisation.fitted(dark, seen(1))(seen(1) / 255).eq(0).all()


def test_fitting_leaves_the_trunk_as_it_is_and_reads_it_as_in_eval_mode(network, rounded):
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.train()
    again = quantisation.fitted(network, seen(8))
    assert network.training
    network.eval()
    assert network.state_dict().keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert torch.equal(again(seen(2) / 255), rounded(seen(2) / 255))


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (torch.zeros(2, 2, 32, 32, dtype=torch.int32), r"int32 \(2, 2, 32, 32\).*must be bytes or floats"),
        (torch.zeros(2, 32, 32), "must be bytes or floats"),
        (torch.full((1, 2, 32, 32), 255.0), r"to 255: must lie in \[0, 1\], or be bytes"),
        (torch.full((1, 2, 32, 32), torch.nan), r"must lie in \[0, 1\]"),
        (torch.zeros(0, 2, 32, 32), "holds no view"),
    ],
)
def test_views_that_cannot_be_are_refused(views, message):
    with pytest.raises(ValueError, match=message):
        quantisation.fitted(mvcnn.vgg_trunk(2), views)


def test_a_network_without_convolutions_is_refused():
    with pytest.raises(ValueError, match=r"fewer than two nn\.Conv2d"):
        quantisation.fitted(nn.Sequential(nn.Flatten(), nn.Linear(2 * SIDE**2, 2)), seen(1))


def test_a_convolution_that_is_used_twice_is_refused():
    twice = nn.Conv2d(4, 4, 1)
    with pytest.raises(ValueError, match="used twice"):
        quantisation.fitted(nn.Sequential(nn.Conv2d(2, 4, 1), twice, nn.ReLU(), twice), seen(1))


def test_a_trunk_that_is_not_finite_is_refused():
    broken = nn.Conv2d(4, 4, 1)
    nn.init.constant_(broken.weight, torch.nan)
    with pytest.raises(ValueError, match="not finite"):
        quantisation.fitted(nn.Sequential(nn.Conv2d(2, 4, 1), broken), seen(1))


@pytest.mark.parametrize(
    ("library", "extra", "load"),
    [
        ("onnxruntime", "airpool[int8]", int8.onnxruntime),
        ("onnx", "airpool-lab[bundle]", quantisation._onnx),
    ],
)
def test_without_a_library_the_message_says_what_to_install(monkeypatch, library, extra, load):
    monkeypatch.setitem(sys.modules, library, None)
    load.cache_clear()
    with pytest.raises((ImportError, ValueError), match=rf"pip install .*{re.escape(extra)}"):
        load()
    load.cache_clear()


# What ONNX Runtime makes of it


@pytest.fixture(scope="module")
def whole(engine, network):
    return quantisation.quantise(network, seen(8), threads=1)


@pytest.mark.check
def test_onnx_runtime_computes_what_the_rounded_layers_say(whole, rounded):
    # A value that lies between two steps may fall to either side and move others with it.
    views = seen(4, seed=7)
    assert relative(whole(views.numpy()), rounded(views / 255)) < 0.04


@pytest.mark.check
def test_every_convolution_but_the_first_cheap_ones_really_runs_in_whole_numbers(rounded, whole, tmp_path):
    runtime, path = int8.onnxruntime(), tmp_path / "run.onnx"
    settings = runtime.SessionOptions()
    settings.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    settings.optimized_model_filepath = str(path)
    runtime.InferenceSession(whole.graph, settings, providers=["CPUExecutionProvider"])
    kinds = Counter(node.op_type for node in quantisation._onnx().load(str(path)).graph.node)
    convolutions = [each for each in rounded.modules() if isinstance(each, nn.Conv2d)]
    exact = sum(not parametrize.is_parametrized(each) for each in convolutions)
    assert 1 <= exact <= 2
    assert kinds["Conv"] + kinds["FusedConv"] == exact
    assert kinds["QLinearConv"] + kinds["MatMulIntegerToFloat"] + kinds["ConvInteger"] == len(convolutions) - exact
    assert kinds["BatchNormalization"] == 0


@pytest.mark.check
def test_the_answer_does_not_depend_on_batch_or_kind_of_number(whole):
    views = seen(6, seed=8).numpy()
    expected = whole(views)
    assert expected.dtype == np.float32
    assert np.array_equal(np.concatenate([whole(views[:1]), whole(views[1:])]), expected)
    assert np.array_equal(whole(views / np.float32(255)), expected)
    assert np.array_equal(whole(np.asfortranarray(views)), expected)
    assert whole(views[:0]).shape == (0, *expected.shape[1:])
    kept = expected.copy()
    assert not np.array_equal(whole(seen(6, seed=10).numpy()), kept)
    assert np.array_equal(expected, kept)  # what was handed out is not written over
    with pytest.raises(ValueError, match=rf"must be bytes or floats \(B, 2, {SIDE}, {SIDE}\)"):
        whole(seen(1, side=32).numpy())


@pytest.mark.check
def test_it_takes_the_place_of_the_trunk_in_torch(whole):
    views = seen(3, seed=9)
    found = quantisation.Int8Module(whole)(views / 255)
    assert torch.equal(found, torch.from_numpy(whole(views.numpy())))
    assert quantisation.Int8Module(whole)((views / 255).bfloat16()).dtype == torch.float32


@pytest.mark.check
def test_what_was_saved_computes_the_same_without_torch(whole, tmp_path):
    path, views = tmp_path / "trunk.zip", seen(3, seed=9).numpy()
    int8.save(path, whole)
    assert [file.name for file in tmp_path.iterdir()] == ["trunk.zip"]
    np.save(tmp_path / "views.npy", views)
    np.save(tmp_path / "maps.npy", whole(views))
    code = """
import sys
sys.modules["torch"] = None
from pathlib import Path
import numpy as np
from airpool.models.vision import int8
folder = Path(sys.argv[1])
maps = int8.load(folder / "trunk.zip", threads=1)(np.load(folder / "views.npy"))
assert np.array_equal(maps, np.load(folder / "maps.npy"))
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_file_that_holds_no_int8_trunk_is_refused(tmp_path):
    path = tmp_path / "trunk.zip"
    with pytest.raises(FileNotFoundError, match="no such file"):
        int8.load(path)
    path.write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match="damaged, or no int8 trunk"):
        int8.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other", "")
    with pytest.raises(ValueError, match="damaged, or no int8 trunk"):
        int8.load(path)


@pytest.mark.check
def test_a_damaged_part_is_refused_in_one_line(whole, tmp_path):
    part = whole.graph
    with zipfile.ZipFile(tmp_path / "trunk.zip", "w") as archive:
        archive.writestr("trunk.onnx", part[: len(part) // 2])
    with pytest.raises(ValueError, match=r"trunk\.zip: damaged, or no int8 trunk .*$"):
        int8.load(tmp_path / "trunk.zip")
    with pytest.raises(ValueError, match="threads=0 must be ≥ 1"):
        int8.Int8Trunk(whole.graph, threads=0)


@pytest.mark.check
@pytest.mark.modelnet
@pytest.mark.skipif(not MODELNET.exists(), reason="needs the packed meshes of ModelNet40")
@pytest.mark.usefixtures("engine")
def test_the_shipped_trunk_says_the_same_of_real_objects_in_int8():
    model, data = airpool.load("modelnet40").trunk, cad.read(MODELNET)
    cameras = Cameras(resolution=model.architecture.resolution)
    train, held = (renders(data, some_rows(data.indices(split), 24), cameras) for split in ("train", "validation"))
    whole = quantisation.Int8Module(quantisation.quantise(model.features, train[:, ::4].flatten(0, 1)))
    views = held.flatten(0, 1)
    exact, found = (
        torch.cat([each(some / 255) for some in views.split(12)]).unflatten(0, held.shape[:2]).mean(1)
        for each in (model.features.requires_grad_(False), whole)
    )
    assert relative(found.mean((-2, -1)), exact.mean((-2, -1))) < 0.1  # what the classifier reads
    assert relative(found, exact) < 0.2
    assert (model.classifier(found).argmax(1) == model.classifier(exact).argmax(1)).sum() >= 23


QUIETLY = """
import os, sys
tried = []
loud = ("socket.", "urllib.Request", "os.fork", "subprocess.Popen", "os.posix_spawn")
sys.addaudithook(lambda event, args: tried.append((event, args)) if event.startswith(loud) else None)

import torch
from airpool_lab.vision.quantisation import quantise
from airpool.models.vision.mvcnn import vgg_trunk

views = torch.rand(2, 2, 32, 32)
whole = quantise(vgg_trunk(2), views)
assert (whole(views.numpy()) >= 0).all()
assert not tried, tried
assert not os.listdir(os.environ["HOME"]), os.listdir(os.environ["HOME"])
"""


@pytest.mark.check
@pytest.mark.usefixtures("engine")
def test_nothing_is_sent_nor_written_and_no_setting_is_needed(tmp_path):
    # As somebody would run it who has set nothing: without a limit to the instructions, too.
    kept = {name: value for name, value in os.environ.items() if name not in ("ONEDNN_MAX_CPU_ISA", "CI", "HOME")}
    command = [sys.executable, "-c", QUIETLY]
    done = subprocess.run(command, env={**kept, "HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
