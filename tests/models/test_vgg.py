"""The trunk, the classifiers and the pooling of views."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from airpool.models.vgg import MVCNN, Architecture, classifier, pool_views, trunk

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
    features = trunk(Architecture(resolution=resolution, batch_norm=batch_norm)).eval()
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
        numbers = sum(x.numel() for x in trunk(Architecture()).state_dict().values())
    assert 2 * numbers < 20e6


def test_the_state_dict_alone_brings_back_the_same_answers():
    torch.manual_seed(0)
    first, second = MVCNN().eval(), MVCNN().eval()
    second.load_state_dict(first.state_dict())
    views = torch.rand(1, 2, 2, 112, 112)
    with torch.no_grad():
        assert torch.equal(first(views), second(views))


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
def test_what_a_missing_view_holds_has_no_effect(model):
    views = torch.rand(1, 3, 2, 112, 112, generator=torch.Generator().manual_seed(3))
    mask = torch.tensor([[True, False, True]])
    spoiled = views.clone()
    spoiled[:, 1] = torch.nan
    assert torch.allclose(model(spoiled, mask), model(views[:, [0, 2]]), atol=1e-5)


@torch.no_grad()
def test_no_view_at_all_gives_what_the_classifier_knows_before_it_looks(model):
    views = torch.full((2, 2, 2, 112, 112), torch.nan)
    logits = model(views, torch.zeros(2, 2, dtype=torch.bool))
    assert torch.equal(logits, model.classifier(torch.zeros(2, 512, 7, 7)))
    assert logits.isfinite().all()


def test_missing_views_leave_gradients_finite():
    torch.manual_seed(0)
    learner = MVCNN(Architecture(num_classes=3))
    views = torch.rand(1, 2, 2, 112, 112)
    views[0, 1] = torch.nan
    learner(views, torch.tensor([[True, False]])).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in learner.parameters())


@torch.no_grad()
def test_channels_last_changes_the_format_and_not_the_answer(model):
    views = torch.rand(1, 2, 2, 112, 112, generator=torch.Generator().manual_seed(4))
    expected = model(views)
    other = MVCNN(model.architecture).eval()
    other.load_state_dict(model.state_dict())
    other = other.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    assert other.features(views[0]).is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(other(views), expected, atol=1e-4)


@given(st.data())
def test_pooling_is_the_plain_loop_over_the_views_that_are_there(data):
    batch, views = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    mask = torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=views, max_size=views), min_size=batch, max_size=batch))
    )
    maps = torch.randn(batch, views, 2, 3, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 99))))
    for pooling in ("mean", "max"):
        pooled = pool_views(maps, mask, pooling=pooling)
        for b in range(batch):
            there = [maps[b, k] for k in range(views) if mask[b, k]]
            if not there:
                expected = torch.zeros(2, 3)
            else:
                expected = torch.stack(there).mean(0) if pooling == "mean" else torch.stack(there).amax(0)
            assert torch.allclose(pooled[b], expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_a_full_mask_is_no_mask(pooling):
    maps = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    full = torch.ones(2, 4, dtype=torch.bool)
    assert torch.allclose(pool_views(maps, full, pooling=pooling), pool_views(maps, pooling=pooling))


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"must be \(2, 4\)"):
        pool_views(torch.zeros(2, 4, 3), torch.ones(2, 3, dtype=torch.bool))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"resolution": 128}, "resolution=128 must be 112 or 224"),
        ({"num_classes": 0}, "num_classes=0"),
        ({"in_channels": 0}, "in_channels=0"),
        ({"head": "big"}, "head='big'"),
        ({"pooling": "sum"}, "pooling='sum'"),
    ],
)
def test_an_architecture_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Architecture(**wrong)
