"""EfficientNet-Lite against the package whose weights it takes."""

import pytest
import torch
from safetensors.torch import save_file

from airpool.models.vision.lite import SCALES, folded, imagenet, read_imagenet, trunk


def shaken(model):
    """The model with batch norm's statistics and scales away from 0 and 1."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.get_buffer("running_mean"), 0, 0.1)
            torch.nn.init.uniform_(module.get_buffer("running_var"), 0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.1)
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("variant", SCALES)
@pytest.mark.parametrize("size", [224, 112])
def test_maps_are_the_packages_own(variant, size):
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet_lite_pytorch")
    torch.manual_seed(0)
    theirs = shaken(package.EfficientNet.from_name(f"efficientnet-{variant}", image_size=size))
    ours = trunk(variant, 3).eval()
    imagenet(ours, theirs.state_dict())
    x = torch.randn(2, 3, size, size)
    torch.testing.assert_close(ours(x), theirs.extract_features(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_shading_and_depth_stand_for_colours():
    torch.manual_seed(0)
    colours, views = shaken(trunk("lite0", 3)), shaken(trunk("lite0", 2))
    imagenet(views, packaged(colours.state_dict()))
    x = torch.rand(2, 2, 64, 64)
    theirs = colours[1](colours[0]((x[:, [0, 0, 1]] * 255 - 127) / 128))
    torch.testing.assert_close(views[1](views[0](x))[..., 1:-1, 1:-1], theirs[..., 1:-1, 1:-1], rtol=1e-4, atol=1e-4)


def packaged(state):
    """Our state dict of lite0 under the package's names, with a classifier, which is not used."""
    inner = ("_expand_conv", "_bn0", "", "_depthwise_conv", "_bn1", "", "_project_conv", "_bn2")
    names = {"0": "_conv_stem", "1": "_bn0", "19": "_conv_head", "20": "_bn1"}
    for block in range(16):
        for i, name in enumerate(inner[3:] if block == 0 else inner):
            names[f"{3 + block}.layers.{i}"] = f"_blocks.{block}.{name}"
    renamed = {f"{names[place]}.{leaf}": v for place, _, leaf, v in ((*k.rpartition("."), v) for k, v in state.items())}
    return {**renamed, "_fc.weight": torch.zeros(1000, 1280), "_fc.bias": torch.zeros(1000)}


def test_a_packages_file_is_read_as_pth_and_as_safetensors(tmp_path):
    state = packaged(trunk("lite0", 3).state_dict())
    torch.save(state, tmp_path / "lite0.pth")
    save_file(state, tmp_path / "lite0.safetensors")
    for name in ("lite0.pth", "lite0.safetensors"):
        ours = trunk("lite0", 3)
        imagenet(ours, read_imagenet(tmp_path / name))
        assert torch.equal(ours.state_dict()["0.weight"], state["_conv_stem.weight"])
        with pytest.raises(FileNotFoundError, match="no such file"):
            read_imagenet(tmp_path / f"absent-{name}")


@pytest.mark.parametrize("content", [b"not torch's", [1, 2], {"_conv_stem.weight": 3}, {1: torch.ones(1)}])
def test_a_file_that_holds_no_weights_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "lite0.pth"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(ValueError, match=r"lite0\.pth: damaged, or no state dict of tensors; copy it again"):
        read_imagenet(path)


def test_weights_that_are_not_finite_are_refused_by_name(tmp_path):
    state = {"_bn0.bias": torch.tensor([1.0, torch.nan])}
    torch.save(state, tmp_path / "nan.pth")
    save_file(state, tmp_path / "nan.safetensors")
    for name in ("nan.pth", "nan.safetensors"):
        with pytest.raises(ValueError, match=f"{name}: _bn0.bias is not finite"):
            read_imagenet(tmp_path / name)


@torch.no_grad()
def test_folding_batch_norm_changes_nothing():
    torch.manual_seed(0)
    model = shaken(trunk("lite0", 2))
    plain = folded(model)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in plain.modules())
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in model.modules())
    x = torch.rand(2, 2, 96, 96)
    torch.testing.assert_close(plain(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["_extra.weight", "_bn1.weight", "_conv_stem.weight", "_bn0.running_mean"])
def test_other_weights_are_refused(name):
    change = {name: torch.zeros(3)}
    with pytest.raises(ValueError, match=r"not the ImageNet weights of this trunk: .* do not fit"):
        imagenet(trunk("lite0", 2), packaged(trunk("lite0", 3).state_dict()) | change)
    with pytest.raises(ValueError, match="not the ImageNet weights of this trunk"):
        imagenet(trunk("lite0", 2), {})
    with pytest.raises(ValueError, match="not the ImageNet weights of this trunk"):
        imagenet(trunk("lite2", 2), packaged(trunk("lite0", 3).state_dict()))


def test_parameters_number_as_documented():
    assert sum(p.numel() for p in trunk("lite0", 3).parameters()) == 4_652_008 - 1_281_000
