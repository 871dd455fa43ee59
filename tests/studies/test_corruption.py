"""Views that went wrong: each in its way, by as much as is said, and the same for the same seed."""

import pytest
import torch
from studies.corruption import KINDS, Corruption, corrupted

from airpool.models.vision.raster import AMBIENT

SIDE = 32


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def discs(count=6):
    """Bright discs on black, in both channels, away from the borders."""
    ticks = torch.arange(SIDE)
    views = torch.zeros(count, 2, SIDE, SIDE, dtype=torch.uint8)
    for i in range(count):
        inside = (ticks - 14 - i % 3) ** 2 + (ticks[:, None] - 16) ** 2 < (5 + i % 4) ** 2
        views[i, 0, inside], views[i, 1, inside] = 200, 140
    return views


def filled(value, count=4):
    return torch.full((count, 2, SIDE, SIDE), value, dtype=torch.uint8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("views", [discs(), filled(255), filled(0)], ids=["discs", "full", "empty"])
def test_severity_zero_leaves_the_view_as_it_was(kind, views):
    found, which = corrupted(views, rng=generator(), corruption=Corruption(0.0, 0.0, 0.0), kind=kind)
    assert torch.equal(found, views)
    assert torch.all(which == KINDS.index(kind))


# Blur


def test_blur_preserves_what_there_is_to_see_away_from_the_borders():
    views = discs()
    found, _ = corrupted(views, rng=generator(), corruption=Corruption(blur=0.05), kind="blur")
    before, after = (each.double().sum(dim=(-1, -2)) for each in (views, found))
    # Every pixel is rounded to a whole number, by at most a half.
    assert torch.all((after - before).abs() <= 0.5 * SIDE * SIDE)
    assert torch.all((after - before).abs() <= 0.02 * before)
    assert torch.all(found.amax(dim=(-1, -2)) <= views.amax(dim=(-1, -2)))


@pytest.mark.parametrize("severity", [0.03, 0.06])
def test_blur_spreads_a_pixel_by_its_standard_deviation(severity):
    """In units of the side; a kernel cut at three standard deviations lacks 2.7 % of its variance."""
    side = 128
    views = torch.zeros(1, 2, side, side, dtype=torch.uint8)
    views[..., 48:80, 48:80] = 255
    found, _ = corrupted(views, rng=generator(), corruption=Corruption(blur=severity), kind="blur")
    profile = found[0, 0].double().sum(dim=0) / found[0, 0].double().sum()
    ticks = torch.arange(side, dtype=torch.float64)
    variance = float(profile @ (ticks - profile @ ticks) ** 2) - (32**2 - 1) / 12
    assert (variance**0.5 / side) == pytest.approx(severity, rel=0.04)


def test_blur_treats_channels_apart():
    views = discs()
    views[:, 0] = 0
    found, _ = corrupted(views, rng=generator(), kind="blur")
    assert torch.all(found[:, 0] == 0)
    assert torch.any(found[:, 1] != views[:, 1])


# Occlusion


@pytest.mark.parametrize("severity", [0.1, 0.4, 0.75, 1.0])
def test_occlusion_covers_the_share_of_the_object_that_is_said(severity):
    views = discs(count=40)
    found, _ = corrupted(views, rng=generator(), corruption=Corruption(occlusion=severity), kind="occlusion")
    seen = views[:, 1] > 0
    covered = found[:, 1] == round(0.95 * 255)
    share = (covered & seen).sum(dim=(-1, -2)) / seen.sum(dim=(-1, -2))
    # A whole pixel, and those that lie on the edge with it where it runs along the grid.
    assert torch.all(share >= severity - 1e-6)
    assert torch.all(share <= severity + 0.05)
    assert torch.all(found[:, 0][covered] == round(AMBIENT * 255))
    untouched = ~covered[:, None].expand_as(found)
    assert torch.equal(found[untouched], views[untouched])


def test_occlusion_comes_from_one_side_and_any_direction():
    views = filled(100, count=200)
    found, _ = corrupted(views, rng=generator(), corruption=Corruption(occlusion=0.5), kind="occlusion")
    covered = (found[:, 1] != 100).double()
    ticks = torch.linspace(-1, 1, SIDE, dtype=torch.float64)
    across = (covered * ticks).mean(dim=(-1, -2))
    along = (covered * ticks[:, None]).mean(dim=(-1, -2))
    assert torch.all(across.hypot(along) > 0.2)  # an edge through the middle: one half of the view
    quadrants = {(bool(a > 0), bool(b > 0)) for a, b in zip(across, along, strict=True)}
    assert len(quadrants) == 4


def test_a_view_of_nothing_cannot_be_occluded():
    found, _ = corrupted(filled(0), rng=generator(), corruption=Corruption(occlusion=1.0), kind="occlusion")
    assert torch.all(found == 0)


# Noise


@pytest.mark.parametrize("severity", [0.02, 0.08])
def test_noise_has_the_standard_deviation_that_is_said(severity):
    views = filled(128, count=64)
    found, _ = corrupted(views, rng=generator(), corruption=Corruption(noise=severity), kind="noise")
    error = (found.double() - 128) / 255
    # The rounding adds 1/12 of a step squared; both moments within five standard errors.
    expected = (severity**2 + 1 / (12 * 255**2)) ** 0.5
    count = error.numel()
    assert float(error.mean()) == pytest.approx(0.0, abs=5 * expected / count**0.5)
    assert float(error.std()) == pytest.approx(expected, abs=5 * expected / (2 * count) ** 0.5)
    assert abs(float((error[:, 0] * error[:, 1]).mean())) < 5 * expected**2 / (count / 2) ** 0.5


def test_noise_stays_on_the_scale():
    found, _ = corrupted(filled(250), rng=generator(), corruption=Corruption(noise=5.0), kind="noise")
    assert {0, 255} <= set(found.unique().tolist())


# Which, and how often


def test_each_view_goes_wrong_in_one_of_three_ways_equally_often():
    views = discs(6).repeat(500, 1, 1, 1)
    found, which = corrupted(views, rng=generator())
    shares = torch.bincount(which, minlength=3) / len(which)
    assert torch.all((shares - 1 / 3).abs() < 5 * (2 / 9 / len(which)) ** 0.5)
    assert torch.all((found != views).flatten(1).any(1))


def test_the_same_seed_gives_the_same_views_and_another_does_not():
    views = discs()
    first, again, other = (corrupted(views, rng=generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3), (0,)])
def test_any_number_of_views_keeps_its_shape(shape):
    views = torch.zeros(*shape, 2, 8, 8, dtype=torch.uint8)
    before = views.clone()
    found, which = corrupted(views, rng=generator())
    assert found.shape == views.shape
    assert found.dtype == torch.uint8
    assert which.shape == shape
    assert torch.equal(views, before)


@pytest.mark.parametrize(
    "views",
    [
        torch.zeros(3, 2, 8, 8),
        torch.zeros(3, 8, 8, dtype=torch.uint8),
        torch.zeros(3, 2, 8, 9, dtype=torch.uint8),
        torch.zeros(8, 8, dtype=torch.uint8),
    ],
)
def test_what_is_no_view_is_refused(views):
    with pytest.raises(ValueError, match=r"must be uint8 \(..., 2, H, H\)"):
        corrupted(views, rng=generator())


def test_an_unknown_kind_is_refused():
    rust: object = "rust"
    with pytest.raises(ValueError, match="kind='rust' must be one of blur, occlusion, noise"):
        corrupted(discs(), rng=generator(), kind=rust)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blur": 0.6}, "blur=0.6 must be from 0 to 0.5"),
        ({"occlusion": 1.01}, "occlusion=1.01 must be from 0 to 1"),
        ({"noise": -0.1}, "noise=-0.1 must be from 0 to 10"),
        ({"noise": float("nan")}, "noise=nan must be from 0 to 10"),
    ],
)
def test_severities_out_of_range_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Corruption(**change)
