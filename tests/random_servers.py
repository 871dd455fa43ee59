"""Servers at random, for tests of what is proven about them."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from airpool_lab.theory.server import LayeredServer


def random_server(rng, *widths):
    """Dense layers from widths[0] inputs to widths[-1] classes."""
    layers = []
    for inside, outside in pairwise(widths):
        layers.append((rng.standard_normal((outside, inside)) / inside**0.5, 0.5 * rng.standard_normal(outside)))
    return LayeredServer(tuple(layers))


@st.composite
def servers(draw, *, layers=(1, 2, 3), dimension=(1, 4), hidden=(1, 8), classes=(2, 5)):
    """Any of them, some with units that are never on and with classes that share a row."""
    depth = draw(st.sampled_from(layers))
    widths = [draw(st.integers(*dimension)), *(draw(st.integers(*hidden)) for _ in range(depth - 1))]
    widths.append(draw(st.integers(*classes)))
    made = random_server(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), *widths)
    parts = [(A.copy(), b.copy()) for A, b in made.layers]
    if draw(st.booleans()):
        parts[0][0][0] = 0.0
    if draw(st.booleans()):
        parts[-1][0][1] = parts[-1][0][0]
    return LayeredServer(tuple(parts))
