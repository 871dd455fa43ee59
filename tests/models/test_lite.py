"""EfficientNet-Lite against the package whose weights it takes."""

import pytest
import torch

from airpool.models.lite import SCALES, Lite, LiteNet, folded, imagenet


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
def test_output_is_the_packages_own(variant, size):
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet_lite_pytorch")
    torch.manual_seed(0)
    theirs = shaken(package.EfficientNet.from_name(f"efficientnet-{variant}", image_size=size))
    ours = LiteNet(Lite(variant, num_classes=1000, in_channels=3)).eval()
    imagenet(ours, theirs.state_dict())
    x = torch.randn(2, 3, size, size)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_shading_and_depth_stand_for_colours():
    torch.manual_seed(0)
    colours = shaken(LiteNet(Lite(num_classes=7, in_channels=3)))
    views = shaken(LiteNet(Lite(num_classes=7)))
    state = colours.state_dict()
    imagenet(views, packaged(state))
    x = torch.rand(2, 2, 64, 64)
    theirs = colours.trunk[1](colours.trunk[0]((x[:, [0, 0, 1]] * 255 - 127) / 128))
    ours = views.trunk[1](views.trunk[0](x))
    torch.testing.assert_close(ours[..., 1:-1, 1:-1], theirs[..., 1:-1, 1:-1], rtol=1e-4, atol=1e-4)


def packaged(state):
    """Our state dict of lite0 under the package's names."""
    inner = ("_expand_conv", "_bn0", "", "_depthwise_conv", "_bn1", "", "_project_conv", "_bn2")
    names = {
        "trunk.0": "_conv_stem",
        "trunk.1": "_bn0",
        "trunk.19": "_conv_head",
        "trunk.20": "_bn1",
        "classifier": "_fc",
    }
    for block in range(16):
        for i, name in enumerate(inner[3:] if block == 0 else inner):
            names[f"trunk.{3 + block}.layers.{i}"] = f"_blocks.{block}.{name}"
    return {f"{names[place]}.{leaf}": v for place, _, leaf, v in ((*k.rpartition("."), v) for k, v in state.items())}


@torch.no_grad()
def test_folding_batch_norm_changes_nothing():
    torch.manual_seed(0)
    model = shaken(LiteNet())
    plain = folded(model)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in plain.modules())
    x = torch.rand(2, 2, 96, 96)
    torch.testing.assert_close(plain(x), model(x), rtol=1e-4, atol=1e-4)


def test_other_weights_are_refused():
    state = packaged(LiteNet().state_dict())
    state["_extra.weight"] = torch.zeros(1)
    with pytest.raises(ValueError, match="not the weights of lite0"):
        imagenet(LiteNet(), state)


def test_parameters_number_as_documented():
    assert sum(p.numel() for p in LiteNet(Lite(num_classes=1000, in_channels=3)).parameters()) == 4_652_008


@pytest.mark.parametrize("bad", [{"variant": "lite9"}, {"num_classes": 0}, {"dropout": 1.0}])
def test_bad_values_are_named(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Lite(**bad)
