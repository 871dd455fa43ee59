"""Random and mutated requests against a running page (benchmarks/page_fuzz.py)."""

import pytest

from benchmarks import page_fuzz


def survived(found, least):
    assert found["requests"] >= least
    assert found["faults"] == []
    assert found["tracebacks"] == []
    assert found["failures"] == []
    assert not found["crashed"]
    assert {"path: 404", "path: 405", "get: 200", "settings: 400"} <= found["outcomes"].keys()


def test_a_page_survives_anything():
    survived(page_fuzz.run(300, seed=2), 300)


@pytest.mark.check
def test_a_page_survives_ten_thousand_requests():
    found = page_fuzz.run(10_000, seed=3)
    survived(found, 10_000)
    assert found["memory_mib"][-1] < 2 * found["memory_mib"][0] + 200
