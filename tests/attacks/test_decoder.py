"""The attacker's decoder: coordinates of signals, and training at the attacked noise."""

import numpy as np
import pytest
import torch

from airpool.evaluation.attacks.decoder import Coordinates, Decoder, train
from airpool.evaluation.attacks.inversion import inverted


def latents(n=400, r=30, rank=4, seed=0):
    torch.manual_seed(seed)
    return torch.randn(n, rank) @ torch.randn(rank, r) + torch.randn(r)


@pytest.mark.parametrize(("r", "most"), [(30, 20), (300, 20)])
def test_coordinates_hold_all_of_latents_of_low_rank(r, most):
    z = latents(r=r)
    space = Coordinates.of(z, most=most)
    back = space.project(z) @ space.directions.T + space.centre
    assert torch.allclose(back, z, atol=1e-3)
    own = space.directions.T @ space.directions
    assert torch.allclose(own, torch.eye(own.shape[0]), atol=1e-4)


def test_the_part_that_is_recovered_is_that_of_the_linear_estimate():
    z, std = latents(n=20_000, r=6, rank=6), 1.5
    space = Coordinates.of(z, most=6)
    clean = space.project(z)
    noisy = clean + std * torch.randn(clean.shape)
    estimate = space.scaled(noisy, std) * space.std
    error = (estimate - clean).square().sum() / clean.square().sum()
    assert 1 - float(error) == pytest.approx(space.recovered(std), abs=0.02)
    assert space.recovered(0.0) == pytest.approx(1.0)


def test_a_decoder_learns_what_the_signal_tells_and_no_more():
    """Two pictures, told apart by one coordinate: without noise they are painted, in much noise their mean is."""
    torch.manual_seed(1)
    pictures = torch.zeros(2, 2, 28, 28)
    pictures[0, :, 4:12], pictures[1, :, 16:24] = 0.8, 0.8

    def error(std):
        def draw():
            which = torch.randint(2, (16,))
            signal = (2.0 * which - 1)[:, None] + std * torch.randn(16, 1)
            return (signal / (1 + std**2), torch.zeros(16, dtype=torch.long)), pictures[which]

        decoder = Decoder(1, side=28, width=4)
        assert train(decoder, draw, steps=80, learning_rate=5e-3) == 80
        (inputs, originals) = draw()
        with torch.no_grad():
            return float((decoder(*inputs) - originals).square().mean())

    without = float((pictures - pictures.mean(0)).square().mean())
    assert error(0.0) < 0.2 * without
    assert error(50.0) == pytest.approx(without, rel=0.3)


def test_a_decoder_without_noise_reads_the_map_as_well():
    decoder = Decoder(3, side=56, width=4, channels=5, cameras=2)
    painted = decoder(torch.randn(2, 3), torch.tensor([0, 1]), torch.randn(2, 5, 7, 7))
    assert painted.shape == (2, 2, 56, 56)
    assert ((painted >= 0) & (painted <= 1)).all()


def test_a_side_that_is_no_multiple_of_the_map_is_named():
    with pytest.raises(ValueError, match="side=64 must be 28, 56, 112 or 224"):
        Decoder(3, side=64)


def test_optimisation_comes_nearer_to_the_signal_without_noise_and_stays_put_in_much_of_it():
    rng = np.random.default_rng(0)
    mix = torch.tensor(rng.standard_normal((20, 2 * 32 * 32)) / 40).float()
    original, start = torch.tensor(rng.random((2, 3, 2, 32, 32))).float()

    def encode(views):
        return views.flatten(1) @ mix.T

    def misfit(views):
        return float((encode(views) - encode(original)).norm())

    exact = inverted(start, encode(original), encode, noise_std=0.0, picture_std=0.3, steps=60, learning_rate=0.05)
    assert misfit(exact) < 0.5 * misfit(start)
    drowned = inverted(start, encode(original), encode, noise_std=100.0, picture_std=0.3, steps=60)
    assert torch.allclose(drowned, start.clamp(1e-3, 1 - 1e-3), atol=0.02)
