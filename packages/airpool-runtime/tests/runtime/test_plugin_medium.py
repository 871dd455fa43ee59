"""The example of a medium in one file, run over loopback and gRPC; and media that are none."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

import airpool
from airpool._support import plugins
from airpool_runtime.air import Air
from airpool_runtime.medium import MEDIA

from .systems import network, simulated, small

EXAMPLE = Path(__file__).parents[4] / "examples/plugins/medium.py"


@pytest.fixture(autouse=True)
def example(monkeypatch, tmp_path):
    plugins.load_file(EXAMPLE)
    monkeypatch.setenv("RECORDED_SUMS", str(tmp_path / "sums.jsonl"))
    return tmp_path / "sums.jsonl"


@pytest.mark.parametrize("transport", ["loopback", "grpc"])
def test_a_medium_of_ones_own_runs_and_gives_what_airpools_own_gives(transport, example):
    async def play():
        async with small(network(), transport, seed=5, medium_rules="recorded") as system:
            return await asyncio.gather(*(system.server.infer() for _ in range(6)))

    results = asyncio.run(play())
    assert {each.status for each in results} == {"answered"}
    for each in results:
        assert each.label == simulated(network(), each.number).label[0, 0]
    rows = [json.loads(line) for line in example.read_text("utf-8").splitlines()]
    assert sorted(row["number"] for row in rows) == list(range(6))
    assert all(np.isfinite(row["y"]).all() for row in rows)


def test_it_is_named_with_its_origin():
    origin = MEDIA.origin("recorded")
    assert origin is not None
    assert origin.source == str(EXAMPLE)
    assert len(origin.sha256) == 64
    assert MEDIA.names()[:2] == ("air", "secure sum")


def test_a_medium_that_is_incomplete_or_unknown_is_named():
    with pytest.raises(plugins.PluginError, match="lacks ports, slot_seconds"):
        airpool.register("medium", "half")(type("Half", (), {"hub": None})())
    with pytest.raises(plugins.PluginError, match="medium 'other' is not known; there is air, secure sum"):
        Air(network(), medium="other")
