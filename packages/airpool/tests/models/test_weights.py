"""Files of weights: what comes back, and what is refused. The trunk is VGG11 made narrow, so that it takes no time."""

import json
import os
import struct
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from airpool._support.version import __version__
from airpool.models import weights
from airpool.models.vision import mvcnn
from airpool.models.vision.mvcnn import MVCNN, Architecture

THREE = Architecture(num_classes=3, head="mlp")


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(mvcnn, "_BLOCKS", ((8,), (8,), (8, 8), (8, 8), (8, 512)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = MVCNN(THREE)
    for name, buffer in made.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
    return made.eval()


@pytest.fixture
def file(model, tmp_path):
    weights.save(tmp_path / "m.safetensors", model, {"seed": 7, "history": [{"loss": 0.5}]})
    return tmp_path / "m.safetensors"


def test_a_model_comes_back_as_it_was_up_to_half_precision(model, file):
    back, about = weights.load(file)
    assert back.architecture == THREE
    assert not back.training
    assert about["seed"] == 7
    assert about["history"] == [{"loss": 0.5}]
    assert about["architecture"]["num_classes"] == 3
    assert about["version"] == __version__
    for name, tensor in model.state_dict().items():
        mine = back.state_dict()[name]
        assert mine.dtype == tensor.dtype
        exact = tensor.ndim == 1 or not tensor.is_floating_point()
        # Half precision has 11 bits, and steps of 2^-24 near zero.
        assert torch.allclose(mine, tensor, rtol=0 if exact else 2**-11, atol=0 if exact else 2**-25)
    assert all(p.requires_grad for p in back.parameters())
    views = torch.rand(1, 2, 2, 112, 112)
    assert (back(views) - model(views)).norm() < 0.01 * model(views).norm()


def test_a_small_variance_keeps_all_its_digits(model, file):
    variance = model.get_buffer("features.1.running_var").fill_(1.2345e-7)  # half precision knows 1.19e-7, then 1.79e-7
    weights.save(file, model, {})
    assert torch.equal(weights.load(file)[0].get_buffer("features.1.running_var"), variance)


def test_matrices_are_half_precision_on_disk_and_counters_are_left_out(file):
    stored = load_file(file)
    assert {tensor.dtype for tensor in stored.values() if tensor.ndim > 1} == {torch.float16}
    assert {tensor.dtype for tensor in stored.values() if tensor.ndim == 1} == {torch.float32}
    assert not any("num_batches_tracked" in name for name in stored)


def test_what_is_loaded_is_saved_again_without_loss(file, tmp_path):
    back, about = weights.load(file)
    weights.save(tmp_path / "again.safetensors", back, about)
    again, twice = weights.load(tmp_path / "again.safetensors")
    assert twice == about
    assert all(torch.equal(a, b) for a, b in zip(again.state_dict().values(), back.state_dict().values(), strict=True))


def test_loading_draws_no_random_numbers(file):
    before = torch.get_rng_state()
    weights.load(file)
    assert torch.equal(before, torch.get_rng_state())


def test_a_model_may_lie_in_parts(model, file, tmp_path):
    with safe_open(file, "pt") as opened:  # pyright: ignore[reportPrivateImportUsage]
        header = opened.metadata()
    stored = load_file(file)
    late = {name: tensor for name, tensor in stored.items() if name.startswith("classifier")}
    parts = [tmp_path / "m.1.safetensors", tmp_path / "m.2.safetensors"]
    save_file({name: tensor for name, tensor in stored.items() if name not in late}, parts[0], metadata=header)
    save_file(late, parts[1], metadata=header)
    whole, _ = weights.load(file)
    joined, _ = weights.load(parts)
    assert all(
        torch.equal(a, b) for a, b in zip(joined.state_dict().values(), whole.state_dict().values(), strict=True)
    )
    with pytest.raises(ValueError, match=r"m.1.safetensors: 'classifier.0.bias' is missing"):
        weights.load(parts[0])
    with pytest.raises(ValueError, match="not parts of one model"):
        weights.load([parts[0], parts[0]])
    weights.write(parts[1], late, {"architecture": {}})
    with pytest.raises(ValueError, match="not parts of one model"):
        weights.load(parts)
    with pytest.raises(ValueError, match="no file"):
        weights.load([])


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent.safetensors: no such file; `airpool train` writes"):
        weights.load(tmp_path / "absent.safetensors")


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, -1])
def test_a_file_cut_short_is_refused(file, kept):
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    with pytest.raises(
        ValueError, match=r"m.safetensors: damaged, or no safetensors file .*copy it again or train anew"
    ):
        weights.load(file)


@pytest.mark.parametrize("place", [8, 60, 200])
def test_a_damaged_header_is_refused(file, place):
    content = bytearray(file.read_bytes())
    content[place : place + 40] = b"\xff" * 40
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"m.safetensors: "):
        weights.load(file)


def test_files_of_others_are_refused(file, tmp_path):
    other = tmp_path / "other.safetensors"
    save_file({"x": torch.ones(1)}, other)
    with pytest.raises(ValueError, match=r"other.safetensors: not written by airpool"):
        weights.load(other)
    save_file({"x": torch.ones(1)}, other, metadata={"about": "[1]"})
    with pytest.raises(ValueError, match=r"other.safetensors: not written by airpool"):
        weights.load(other)
    weights.write(other, {"x": torch.ones(1)}, {})
    with pytest.raises(ValueError, match=r"other.safetensors: holds no trunk .*'architecture' is missing"):
        weights.load(other)
    weights.write(other, {"x": torch.ones(1)}, {"architecture": {"resolution": 100}})
    with pytest.raises(ValueError, match=r"other.safetensors: holds no trunk .*resolution=100 must be 112 or 224"):
        weights.load(other)
    with pytest.raises(ValueError, match="damaged, or no safetensors"):
        weights.load(Path(__file__))
    with pytest.raises(ValueError, match="a folder, must be a safetensors file"):
        weights.load(tmp_path)


def test_weights_that_do_not_fit_their_architecture_are_refused(model, file):
    stored, about = weights.read(file)
    about["architecture"]["num_classes"] = 4
    weights.write(file, stored, about)
    with pytest.raises(ValueError, match=r"m.safetensors: 'classifier.3.bias' is missing or does not fit"):
        weights.load(file)
    weights.write(file, {**model.state_dict(), "more": torch.ones(1)}, about | {"architecture": {"num_classes": 3}})
    with pytest.raises(ValueError, match="does not fit"):
        weights.load(file)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e6])
def test_a_training_that_diverged_is_not_written_and_the_old_file_stays(model, file, bad):
    before = file.read_bytes()
    with torch.no_grad():
        model.features[0].weight[0, 0, 0, 0] = bad
    with pytest.raises(ValueError, match=r"features.0.weight is not finite.*smaller learning_rate"):
        weights.save(file, model, {})
    assert file.read_bytes() == before


def test_a_stop_while_writing_leaves_the_old_file_whole(model, file, monkeypatch):
    before = file.read_bytes()

    def stopped(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        weights.save(file, model, {})
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_the_header_is_json_that_anything_can_read(file):
    content = file.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["about"])
    assert about["seed"] == 7
