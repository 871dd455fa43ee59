"""The attacker's decoder: coordinates of signals, and training at the attacked noise."""

import numpy as np
import pytest
import torch

from airpool_lab.attacks.reconstruct import Decoder, train
from studies.attack_decoders import inverted
from studies.attack_signals import Coordinates


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

        decoder = Decoder(1, pictures.mean(0, keepdim=True), width=4)
        assert train(decoder, draw, steps=80, learning_rate=5e-3) == 80
        (inputs, originals) = draw()
        with torch.no_grad():
            return float((decoder(*inputs) - originals).square().mean())

    without = float((pictures - pictures.mean(0)).square().mean())
    assert error(0.0) < 0.2 * without
    assert error(50.0) == pytest.approx(without, rel=0.3)


def test_a_decoder_without_noise_reads_the_map_as_well():
    mean = torch.rand(2, 2, 56, 56)
    decoder = Decoder(3, mean, width=4, channels=5)
    painted = decoder(torch.randn(2, 3), torch.tensor([1, 0]), torch.randn(2, 5, 7, 7))
    assert torch.allclose(painted, mean.flip(0), atol=0.002)  # before it is trained
    last = decoder.stages[-2]
    assert isinstance(last, torch.nn.Conv2d)
    torch.nn.init.normal_(last.weight)
    assert not torch.allclose(decoder(torch.randn(2, 3), torch.tensor([1, 0]), torch.randn(2, 5, 7, 7)), painted)


def test_a_side_that_is_no_multiple_of_the_map_is_named():
    with pytest.raises(ValueError, match="side=64 must be 28, 56, 112 or 224"):
        Decoder(3, torch.zeros(1, 2, 64, 64))


def test_optimisation_comes_nearer_to_the_signal_without_noise_and_stays_put_in_much_of_it():
    rng = np.random.default_rng(0)
    paint, mix = (torch.tensor(rng.standard_normal(size) / 8).float() for size in ((60, 40), (20, 60)))
    original, start = torch.tensor(rng.standard_normal((2, 3, 40))).float()

    def draw(sketch):
        return (sketch @ paint.T).sigmoid()

    def encode(views):
        return views @ mix.T

    def misfit(sketch):
        return float((encode(draw(sketch)) - encode(draw(original))).norm())

    exact = inverted(start, encode(draw(original)), draw, encode, noise_std=0.0)
    assert misfit(exact) < 0.5 * misfit(start)
    drowned = inverted(start, encode(draw(original)), draw, encode, noise_std=100.0)
    assert torch.allclose(drowned, start, atol=0.01)
