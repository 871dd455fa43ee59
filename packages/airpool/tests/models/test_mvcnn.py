"""The trunk, the classifiers and the pooling of views."""

import pytest
import torch

from airpool.models.vision.mvcnn import MVCNN, TRUNKS, Architecture, Trunk, classifier, pool_views

# torchvision's configuration "A": where the convolutions stand in `features`, and their channels.
PLAIN = {
    0: (3, 64),
    3: (64, 128),
    6: (128, 256),
    8: (256, 256),
    11: (256, 512),
    13: (512, 512),
    16: (512, 512),
    18: (512, 512),
}
NORMED = {
    0: (3, 64),
    4: (64, 128),
    8: (128, 256),
    11: (256, 256),
    15: (256, 512),
    18: (512, 512),
    22: (512, 512),
    25: (512, 512),
}


def torchvision_shapes(batch_norm: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes of torchvision's vgg11 or vgg11_bn, in its order."""
    shapes: dict[str, tuple[int, ...]] = {}
    for index, (channels_in, channels) in (NORMED if batch_norm else PLAIN).items():
        shapes |= {f"features.{index}.weight": (channels, channels_in, 3, 3), f"features.{index}.bias": (channels,)}
        if batch_norm:
            for name in ("weight", "bias", "running_mean", "running_var"):
                shapes[f"features.{index + 1}.{name}"] = (channels,)
            shapes[f"features.{index + 1}.num_batches_tracked"] = ()
    for index, (width_in, width) in {0: (25088, 4096), 3: (4096, 4096), 6: (4096, 1000)}.items():
        shapes |= {f"classifier.{index}.weight": (width, width_in), f"classifier.{index}.bias": (width,)}
    return shapes


@pytest.mark.parametrize("batch_norm", [False, True])
def test_names_and_shapes_are_torchvisions(batch_norm):
    architecture = Architecture(num_classes=1000, in_channels=3, resolution=224, batch_norm=batch_norm, head="vgg")
    with torch.device("meta"):
        model = MVCNN(architecture)
    assert [(name, tuple(x.shape)) for name, x in model.state_dict().items()] == list(
        torchvision_shapes(batch_norm).items()
    )


@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("resolution", [112, 224])
def test_both_resolutions_give_maps_of_512_by_7_by_7(resolution, batch_norm):
    features = MVCNN(Architecture(resolution=resolution, batch_norm=batch_norm)).eval().features
    with torch.no_grad():
        maps = features(torch.rand(1, 2, resolution, resolution))
    assert maps.shape == (1, 512, 7, 7)
    assert float(maps.min()) >= 0


@pytest.mark.parametrize(
    ("head", "parameters"), [("linear", 20_520), ("mlp", 283_176), ("flat", 1_003_560), ("vgg", 119_709_736)]
)
def test_every_head_gives_logits_and_has_the_size_its_docstring_says(head, parameters):
    with torch.device("meta"):
        server = classifier(Architecture(head=head))
        assert server(torch.zeros(3, 512, 7, 7)).shape == (3, 40)
    assert sum(p.numel() for p in server.parameters()) == parameters


def test_the_trunk_fits_in_20_megabytes_of_half_precision():
    with torch.device("meta"):
        numbers = sum(x.numel() for x in MVCNN().features.state_dict().values())
    assert 2 * numbers < 20e6


def test_the_state_dict_alone_brings_back_the_same_answers():
    torch.manual_seed(0)
    first, second = MVCNN().eval(), MVCNN().eval()
    second.load_state_dict(first.state_dict())
    views = torch.rand(1, 2, 2, 112, 112)
    with torch.no_grad():
        assert torch.equal(first(views), second(views))


@torch.no_grad()
@pytest.mark.parametrize("trunk", ["lite0", "lite1", "lite2"])
def test_lite_gives_maps_of_1280_by_7_by_7(trunk):
    architecture = Architecture(trunk=trunk)
    assert architecture.resolution == 224
    assert architecture.map_shape == (1280, 7, 7)
    with torch.device("meta"):
        model = MVCNN(architecture).eval()
        assert model.features(torch.zeros(1, 2, 224, 224)).shape == (1, 1280, 7, 7)
        assert model(torch.zeros(2, 3, 2, 224, 224)).shape == (2, 40)


@torch.no_grad()
def test_a_linear_head_on_mean_maps_averages_the_logits_of_single_views():
    torch.manual_seed(0)
    model = MVCNN(Architecture(trunk="lite0", num_classes=5)).eval()
    views = torch.rand(2, 3, 2, 96, 96)
    single = model.classifier(model.features(views.flatten(0, 1))).unflatten(0, (2, 3))
    assert torch.allclose(model(views), single.mean(1), atol=1e-5)


@torch.no_grad()
def test_a_backbone_of_ones_own_is_one_more_entry_of_the_table(monkeypatch):
    def build(architecture):
        return torch.nn.Sequential(torch.nn.Conv2d(architecture.in_channels, 6, 8, stride=8))

    monkeypatch.setitem(TRUNKS, "own", Trunk(build, channels=6, resolutions=(32,), side=4))
    for head in ("linear", "mlp", "flat"):
        model = MVCNN(Architecture(trunk="own", head=head, num_classes=3)).eval()
        assert model(torch.rand(2, 5, 2, 32, 32)).shape == (2, 3)
        assert model.maps(torch.rand(2, 5, 2, 32, 32)).shape == (2, 5, 6, 4, 4)


@pytest.fixture(scope="module")
def model() -> MVCNN:
    torch.manual_seed(0)
    return MVCNN(Architecture(num_classes=5)).eval()


@torch.no_grad()
def test_maps_then_pooling_then_classifier_is_the_whole_model(model):
    views = torch.rand(2, 3, 2, 112, 112, generator=torch.Generator().manual_seed(2))
    maps = model.maps(views)
    assert maps.shape == (2, 3, 512, 7, 7)
    assert torch.allclose(maps[1, 2], model.features(views[1, 2:])[0], atol=1e-5)
    assert torch.allclose(model(views), model.classifier(maps.mean(1)), atol=1e-6)


@torch.no_grad()
def test_channels_last_changes_the_format_and_not_the_answer(model):
    views = torch.rand(1, 2, 2, 112, 112, generator=torch.Generator().manual_seed(4))
    expected = model(views)
    other = MVCNN(model.architecture).eval()
    other.load_state_dict(model.state_dict())
    other = other.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    assert other.features(views[0]).is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(other(views), expected, atol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_pooling_is_the_plain_loop_over_the_views(pooling):
    maps = torch.randn(3, 5, 2, 3, generator=torch.Generator().manual_seed(0))
    for own, pooled in zip(maps, pool_views(maps, pooling=pooling), strict=True):
        expected = torch.stack(list(own)).sum(0) / 5 if pooling == "mean" else torch.stack(list(own)).amax(0)
        assert torch.allclose(pooled, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"resolution": 128}, "resolution=128 must be 112 or 224 for vgg11"),
        ({"resolution": 112, "trunk": "lite0"}, "resolution=112 must be 224 for lite0"),
        ({"trunk": "resnet"}, "trunk='resnet' must be vgg11, lite0, lite1, lite2"),
        ({"num_classes": 0}, "num_classes=0"),
        ({"in_channels": 0}, "in_channels=0"),
        ({"head": "big"}, "head='big'"),
        ({"pooling": "sum"}, "pooling='sum'"),
    ],
)
def test_an_architecture_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Architecture(**wrong)
