"""The beam's search, against the same steps written plainly for one draw at a time."""

import numpy as np
import pytest
import torch

from airpool.radio.beam import beam, channels


def plain(h: np.ndarray) -> np.ndarray:
    """Channels (K, M) → w: forty steps towards the weakest device, and the best of them."""
    w = np.eye(h.shape[1])[np.argmax(np.abs(h).min(axis=0))].astype(complex)
    best, reached = w, np.abs(h @ w.conj()).min()
    for step in range(40):
        c = h @ w.conj()
        weakest = np.argmin(np.abs(c))
        towards = c[weakest].conj() * h[weakest]
        w = w + 0.6 / (1 + step / 4) * towards / np.linalg.norm(towards)
        w = w / np.linalg.norm(w)
        if (least := np.abs(h @ w.conj()).min()) > reached:
            best, reached = w, least
    return best


@pytest.mark.parametrize(("devices", "antennas"), [(1, 2), (3, 4), (8, 2)])
def test_the_fast_search_takes_the_same_steps(devices, antennas):
    h = channels(0.3, 1.0, (40, devices), antennas, np.random.default_rng(0))
    wanted = np.stack([plain(each) for each in h])
    np.testing.assert_allclose(beam(h), wanted, atol=1e-9)
    np.testing.assert_allclose(beam(torch.tensor(h)).numpy(), wanted, atol=1e-9)
    np.testing.assert_allclose(beam(h.reshape(5, 8, devices, antennas)), wanted.reshape(5, 8, antennas), atol=1e-9)


def test_draws_in_blocks_are_the_draws_at_once(monkeypatch):
    h = channels(0.0, 1.0, (100, 3), 2, np.random.default_rng(1))
    whole = beam(h)
    monkeypatch.setattr("airpool.radio.beam._CACHED", 60)
    np.testing.assert_allclose(beam(h), whole, atol=1e-12)
    assert beam(h[:0]).shape == (0, 2)
