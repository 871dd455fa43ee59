"""The trunk in whole numbers: torch says what the layers mean, and OpenVINO must compute that."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from airpool.models import int8
from airpool.models.vgg import MVCNN, Architecture, trunk

SIDE = 32  # nothing depends on it, and 112 takes longer


def relative(found, expected):
    return float((found - expected).norm() / expected.norm())


def as_trained(network):
    """Batch norm that has something to fold."""
    rng = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            state = module.state_dict()
            for name in ("running_mean", "bias"):
                state[name].normal_(std=0.1, generator=rng)
            for name in ("running_var", "weight"):
                state[name].uniform_(0.5, 1.5, generator=rng)
    return network.eval().requires_grad_(False)


def seen(count, *, side=SIDE, seed=0):
    """Views as they are kept: bytes, over 255."""
    return torch.randint(256, (count, 2, side, side), generator=torch.Generator().manual_seed(seed)) / 255


@pytest.fixture(scope="module", params=[True, False], ids=["batch norm", "plain"])
def network(request):
    torch.manual_seed(0)
    return as_trained(trunk(Architecture(batch_norm=request.param)))


@pytest.fixture(scope="module")
def layers(network):
    return int8.fitted(network, seen(8))


@pytest.fixture(scope="module")
def openvino():
    """OpenVINO as airpool imports it: `pytest.importorskip` would send its telemetry."""
    try:
        return int8._openvino()
    except ImportError as missing:
        pytest.skip(str(missing))


# What the layers say, in torch alone


def test_folding_batch_norm_changes_nothing(network):
    views = values = seen(2, seed=5)
    for weight, bias, pool in int8._folded(network):
        values = nn.functional.conv2d(values, weight, bias, padding=1).relu()
        values = nn.functional.max_pool2d(values, 2) if pool else values
    assert relative(values, network(views)) < 1e-5


def test_views_kept_as_bytes_lose_nothing():
    steps = torch.arange(256) / 255
    assert torch.equal((int8._rounded(steps, 1.0) * 255).round(), torch.arange(256.0))
    assert torch.allclose(int8._rounded(steps, 1.0), steps, rtol=1e-6)


def test_weights_are_whole_and_within_half_a_step_of_what_they_were(network, layers):
    for layer, (weight, _, _) in zip(layers, int8._folded(network), strict=True):
        assert layer.weight.dtype == torch.int8
        assert (layer.weight.abs().amax((1, 2, 3)) == 64).all()
        off = layer.weight * layer.scale[:, None, None, None] - weight
        assert (off.abs() <= 0.5001 * layer.scale[:, None, None, None]).all()


def test_whole_numbers_come_close_on_views_they_were_not_fitted_to(network, layers):
    views = seen(4, seed=6)
    assert relative(int8.reference(layers, views), network(views)) < 0.03


def test_the_last_map_is_not_rounded_and_all_others_are(layers):
    assert [layer.limit is None for layer in layers] == [False] * 7 + [True]


def test_rounding_leaves_the_mean_of_every_channel_where_it_was():
    torch.manual_seed(2)
    bright = nn.Sequential(nn.Conv2d(2, 16, 3, padding=1), nn.ReLU()).requires_grad_(False)
    bright.state_dict()["0.bias"].fill_(10.0)  # ReLU cuts nothing off
    views = torch.rand(4, 2, SIDE, SIDE)  # not bytes, so they are rounded too
    mean = int8.reference(int8.fitted(bright, views), views).mean((0, 2, 3))
    assert torch.allclose(mean, bright(views).mean((0, 2, 3)), atol=1e-5)


def test_nothing_that_was_seen_is_cut_off():
    torch.manual_seed(3)
    convolution = nn.Conv2d(2, 4, 3, padding=1)
    two = nn.Sequential(convolution, nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()).requires_grad_(False)
    assert int8.fitted(two, seen(3))[0].limit == pytest.approx(float(convolution(seen(3)).max()))


def test_a_layer_that_is_always_dark_gives_zeros():
    dark = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
    for parameter in dark.requires_grad_(False).parameters():
        parameter.zero_()
    assert int8.reference(int8.fitted(dark, seen(1)), seen(1)).eq(0).all()


def test_fitting_leaves_the_trunk_as_it_is_and_reads_it_as_in_eval_mode(network, layers):
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.train()
    again = int8.fitted(network, seen(8))
    assert network.training
    network.eval()
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert all(torch.equal(a.bias, b.bias) and a.limit == b.limit for a, b in zip(again, layers, strict=True))


def test_the_trunks_memory_format_and_precision_do_not_matter(layers, network):
    copy = trunk(Architecture(batch_norm=isinstance(network[1], nn.BatchNorm2d))).eval()
    copy.load_state_dict(network.state_dict())
    copy = copy.double().to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    again = int8.fitted(copy, seen(8))
    for found, expected in zip(again, layers, strict=True):
        assert found.weight.is_contiguous()  # safetensors insists
        assert (found.weight.int() - expected.weight).abs().max() <= 1  # between two steps, to either side
    assert relative(int8.reference(again, seen(4, seed=6)), network(seen(4, seed=6))) < 0.03


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (torch.zeros(2, 2, 32, 32, dtype=torch.uint8), r"uint8 \(2, 2, 32, 32\).*must be floats"),
        (torch.zeros(2, 32, 32), "must be floats"),
        (torch.zeros(32), "must be floats"),
        (torch.zeros(2, 2, 32, 16), r"\(2, 2, 32, 16\).*must be floats \(B, 2, 16, 16\)"),
        (torch.full((1, 2, 32, 32), 255.0), r"to 255: must lie in \[0, 1\]; bytes divided by 255"),
        (torch.full((1, 2, 32, 32), torch.nan), r"must lie in \[0, 1\]"),
        (torch.zeros(0, 2, 32, 32), "holds no view"),
    ],
)
def test_views_that_cannot_be_are_refused(views, message):
    with pytest.raises(ValueError, match=message):
        int8.fitted(trunk(Architecture()), views)


@pytest.mark.parametrize(
    "strange",
    [
        [nn.Linear(2, 2)],
        [nn.Conv2d(2, 2, 5, padding=2), nn.ReLU()],
        [nn.Conv2d(2, 2, 3, padding=1, stride=2), nn.ReLU()],
        [nn.Conv2d(2, 2, 3, padding=1)],
        [nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(), nn.Dropout()],
    ],
)
def test_other_networks_are_refused(strange):
    with pytest.raises(ValueError, match="only VGG11's trunk"):
        int8.fitted(nn.Sequential(*strange), seen(1))


def test_without_openvino_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    int8._openvino.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'airpool\[int8\]'"):
        int8.quantise(trunk(Architecture()), seen(1))
    int8._openvino.cache_clear()


# What OpenVINO makes of them


@pytest.mark.check
@pytest.mark.usefixtures("openvino")
def test_openvino_computes_what_the_layers_say(layers):
    views = seen(4, seed=7)
    first = [replace(layers[0], limit=None)]
    assert relative(int8.Int8Trunk(first, resolution=SIDE)(views), int8.reference(first, views)) < 1e-6
    # From the second layer on, a value that lies between two steps may fall to either side and move others with it.
    both = [layers[0], replace(layers[1], limit=None)]
    off = int8.Int8Trunk(both, resolution=SIDE)(views) - int8.reference(both, views)
    assert float((off.abs() > 1e-5).double().mean()) < 0.01
    assert relative(int8.Int8Trunk(layers, resolution=SIDE)(views), int8.reference(layers, views)) < 0.02


@pytest.mark.check
@pytest.mark.usefixtures("openvino")
def test_every_convolution_really_runs_in_whole_numbers(layers):
    steps = int8.Int8Trunk(layers, resolution=SIDE)._request.get_compiled_model().get_runtime_model().get_ops()
    told = [{key: step.get_rt_info()[key].value for key in ("layerType", "runtimePrecision")} for step in steps]
    assert [each["runtimePrecision"] for each in told if each["layerType"] == "Convolution"] == ["u8"] * len(layers)


@pytest.mark.check
@pytest.mark.usefixtures("openvino")
def test_it_takes_the_place_of_the_trunk_in_a_network():
    torch.manual_seed(0)
    model = as_trained(MVCNN(Architecture()))
    views = seen(12, side=112).unflatten(0, (3, 4))
    expected = model(views)
    model.features = nn.Sequential(int8.quantise(model.features, seen(4, side=112, seed=9)))
    found = model(views)
    assert model.maps(views).shape == (3, 4, 512, 7, 7)
    assert relative(found, expected) < 0.02


@pytest.mark.check
@pytest.mark.usefixtures("openvino")
def test_the_answer_does_not_depend_on_batch_threads_or_memory_format(network):
    views = seen(6, seed=8)
    whole = int8.quantise(network, seen(8), threads=1)
    expected = whole(views)
    assert expected.dtype == torch.float32
    assert torch.equal(torch.cat([whole(views[:1]), whole(views[1:])]), expected)
    assert torch.equal(whole(views.contiguous(memory_format=torch.channels_last)), expected)
    assert torch.equal(whole(views.double()), expected)
    assert whole(views.bfloat16()).dtype == torch.float32
    assert torch.equal(int8.Int8Trunk(whole.layers, resolution=SIDE, threads=2)(views), expected)
    assert whole(views[:0]).shape == (0, *expected.shape[1:])
    kept = expected.clone()
    assert not torch.equal(whole(seen(6, seed=10)), kept)
    assert torch.equal(expected, kept)  # what was handed out is not written over
    with pytest.raises(ValueError, match=r"must be floats \(B, 2, 32, 32\)"):
        whole(seen(1, side=64))


@pytest.mark.check
@pytest.mark.usefixtures("openvino")
def test_what_was_saved_computes_the_same(network, tmp_path):
    path, views = tmp_path / "trunk.safetensors", seen(3, seed=9)
    whole = int8.quantise(network, seen(8))
    int8.save(path, whole)
    assert [file.name for file in tmp_path.iterdir()] == ["trunk.safetensors"]
    assert path.stat().st_size < 9.3e6
    assert torch.equal(int8.load(path)(views), whole(views))


def test_a_file_that_holds_no_int8_trunk_is_refused(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "trunk.safetensors"
    path.write_bytes(b"not tensors")
    with pytest.raises(ValueError, match="damaged"):
        int8.load(path)
    save_file({"0.weight": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="holds no int8 trunk"):
        int8.load(path)


QUIETLY = """
import os, sys
tried = []
loud = ("socket.", "urllib.Request", "os.fork", "subprocess.Popen", "os.posix_spawn")
sys.addaudithook(lambda event, args: tried.append((event, args)) if event.startswith(loud) else None)

import torch
from airpool.models import int8
from airpool.models.vgg import Architecture, trunk

views = torch.rand(2, 2, 32, 32)
whole = int8.quantise(trunk(Architecture()), views)
assert whole(views).isfinite().all()
assert not tried, tried
assert not os.listdir(os.environ["HOME"]), os.listdir(os.environ["HOME"])

import openvino
from openvino.tools.ovc import telemetry_utils
assert telemetry_utils.tm.__name__ == "openvino.tools.ovc.telemetry_stub"
"""


@pytest.mark.check
@pytest.mark.usefixtures("openvino")
def test_nothing_is_sent_nor_written_and_no_setting_is_needed(tmp_path):
    # As somebody would run it who has set nothing: without a limit to the instructions, too.
    kept = {name: value for name, value in os.environ.items() if name not in ("ONEDNN_MAX_CPU_ISA", "CI", "HOME")}
    command = [sys.executable, "-c", QUIETLY]
    done = subprocess.run(command, env={**kept, "HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
