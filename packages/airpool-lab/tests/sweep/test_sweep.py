"""Sweeps: the same table from the same seed whoever runs it, kept through kills, and never from other code."""

import csv
import importlib
import json
import math
import os
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airpool._support import table
from airpool._support.version import __version__
from airpool_lab import sweep
from airpool_lab.sweep import seed_of, version_of

EXPERIMENT = """
import os, signal, time
from pathlib import Path
import numpy as np

def noisy(n, scale=1.0, *, rng):
    note(n)
    return {"mean": scale * rng.standard_normal(n).mean(), "n_squared": np.int64(n) ** 2}

def seeded(n, seed):
    return seed

def summed(n, rng):
    import torch
    many = torch.from_numpy(rng.standard_normal(1_000_000).astype("float32"))
    square = rng.standard_normal((400, 400))
    return {"torch": many.sum(), "numpy": np.sqrt(np.abs(square @ square)).sum(), "threads": torch.get_num_threads()}

def odd(n):
    return {"inf": math.inf, "nan": math.nan, "list": [1.5, None], "text": "a,b"}

def fails(n):
    if n == 2 and not Path("mended").exists():
        raise ValueError("two\\nis not allowed")
    return n

def dies(n):
    if n == 1:
        os._exit(7)
    if n == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return n

def returns(what):
    deep = {"nested": {"a": {"b": 1}}, "deeper": {"a": [{"b": 1}]}}
    return {"object": object(), "again": {"what": 1}, **deep, "seed": {"seed": 1}}[what]

def asks(n):
    return len(os.read(0, 1)) + n

def slow(n):
    note(n)
    time.sleep(60 if n else 0)
    Path(f"finished {n}").touch()
    return n

def meets(n):
    Path(f"here {n}").touch()
    for _ in range(60_000):
        if Path(f"here {n ^ 1}").exists():
            return n
        time.sleep(0.01)
    raise TimeoutError("alone")

def nested(n):
    from airpool_lab import sweep
    return len(sweep.run(fails, sweep.grid(n=[0, 1]), backend="pool"))

def note(n):
    with open("calls", "a") as file:
        file.write(f"{n} {os.getpid()}\\n")
"""


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """A user's module in a folder of its own, which is also where we are."""
    (tmp_path / "experiment.py").write_text("import math\n" + EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield load()
    sys.modules.pop("experiment", None)


def load():
    """The module as it is on disk now."""
    sys.modules.pop("experiment", None)
    importlib.invalidate_caches()
    return importlib.import_module("experiment")


def calls():
    path = Path("calls")
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


# Points and their seeds


def test_a_grid_has_every_combination_and_the_last_name_varies_fastest():
    assert sweep.grid(a=[1, 2], b=("x", "y"), c=0.5) == [
        {"a": 1, "b": "x", "c": 0.5},
        {"a": 1, "b": "y", "c": 0.5},
        {"a": 2, "b": "x", "c": 0.5},
        {"a": 2, "b": "y", "c": 0.5},
    ]
    assert sweep.grid(a=np.linspace(0, 1, 2), b=range(2))[-1] == {"a": 1.0, "b": 1}
    assert sweep.grid(a=[[1, 2], [3]]) == [{"a": [1, 2]}, {"a": [3]}]
    assert sweep.grid() == [{}]
    with pytest.raises(ValueError, match="a has no values"):
        sweep.grid(a=[])


def test_a_seed_is_that_of_the_point_and_stays_what_it_is():
    assert seed_of({"a": 1, "b": "x"}, 0) == seed_of({"b": "x", "a": 1}, 0) == 3940011609476551
    assert seed_of({"a": 1.0, "b": "x"}, 0) == 3940011609476551
    assert seed_of({"a": True, "b": "x"}, 0) != 3940011609476551
    others = [seed_of({"a": a, "b": "x"}, seed) for a in range(20) for seed in range(20)]
    assert len(set(others)) == 400
    assert max(others) < 2**53


def test_rows_depend_neither_on_the_order_nor_on_the_other_points(experiment):
    points = sweep.grid(n=[3, 4, 5], scale=[1.0, 2.0])
    whole = sweep.run(experiment.noisy, points, seed=7).rows()
    assert sweep.run(experiment.noisy, points[::-1], seed=7).rows() == whole[::-1]
    assert sweep.run(experiment.noisy, points[2:3], seed=7).rows() == whole[2:3]
    assert sweep.run(experiment.noisy, points, seed=8).columns["mean"] != [row["mean"] for row in whole]


def test_the_seed_in_the_table_makes_the_row_again(experiment):
    for row in sweep.run(experiment.noisy, sweep.grid(n=[3, 4]), seed=1).rows():
        again = experiment.noisy(row["n"], rng=np.random.default_rng(row["seed"]))
        assert again["mean"] == row["mean"]


def test_a_function_may_ask_for_the_seed_itself_unless_it_is_a_parameter(experiment):
    made = sweep.run(experiment.seeded, sweep.grid(n=[1, 2]))
    assert made.columns["value"] == made.columns["seed"]
    assert sweep.run(experiment.seeded, sweep.grid(n=1, seed=[5, 6])).columns["value"] == [5, 6]


def test_a_point_that_is_named_twice_has_one_row(experiment):
    points = sweep.grid(n=[1, 2]) + sweep.grid(n=[2, 3])
    assert sweep.run(experiment.seeded, points).columns["n"] == [1, 2, 3]


def test_points_of_several_kinds_share_a_table(experiment):
    made = sweep.run(experiment.noisy, [{"n": 3}, {"n": 3, "scale": 2.0}])
    assert made.columns["scale"] == [None, 2.0]
    assert made.parameters == ("n", "scale")


# Backends


def test_the_pool_gives_the_same_table_as_this_process(experiment):
    points = sweep.grid(n=[3, 4, 5], scale=[1.0, 2.0])
    here = sweep.run(experiment.noisy, points, seed=3)
    there = sweep.run(experiment.noisy, points, seed=3, backend=sweep.Workers("pool", 2))
    assert here == there == sweep.run(experiment.noisy, points, seed=3)
    assert len(here) == 6
    assert not here.failures
    assert here.columns["n_squared"] == [9, 9, 16, 16, 25, 25]
    pids = {line.split()[1] for line in Path("calls").read_text().splitlines()}
    assert str(os.getpid()) in pids
    assert len(pids) > 1
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == [str(os.getpid())]


def test_long_sums_round_the_same_because_every_point_has_one_thread(experiment):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        here = sweep.run(experiment.summed, sweep.grid(n=[1, 2]))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert here == sweep.run(experiment.summed, sweep.grid(n=[1, 2]), backend=sweep.Workers("pool", 1))
    assert here.columns["threads"] == [1, 1]


def test_a_failed_point_is_reported_and_the_rest_goes_on(experiment):
    here = sweep.run(experiment.fails, sweep.grid(n=[1, 2, 3]))
    assert here == sweep.run(experiment.fails, sweep.grid(n=[1, 2, 3]), backend=sweep.Workers("pool", 2))
    assert here.columns["value"] == [1, 3]
    (failure,) = here.failures
    assert failure.parameters == {"n": 2}
    assert failure.error.startswith("ValueError: two is not allowed (experiment.py:")
    assert str(failure).startswith("n=2: ValueError")


def test_a_point_that_reads_its_standard_input_finds_it_empty(experiment):
    assert sweep.run(experiment.asks, sweep.grid(n=[1, 2]), backend=sweep.Workers("pool", 2)).columns["value"] == [1, 2]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_point_that_kills_its_process_is_lost_alone(experiment, workers):
    made = sweep.run(experiment.dies, sweep.grid(n=range(6)), backend=sweep.Workers("pool", workers))
    assert made.columns["value"] == [0, 3, 4, 5]
    assert [f.error for f in made.failures] == [
        "its process died: EXIT(7)",
        "its process died: SIGKILL(-9), perhaps for lack of memory",
    ]


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("object", "must be a number, text, true, false or none"),
        ("again", "'what' is returned, but is a column already"),
        ("nested", "a={'b': 1} must be a number"),
        ("deeper", "a=[{'b': 1}] must be a number"),
        ("seed", "'seed' is returned, but is a column already"),
    ],
)
def test_what_does_not_fit_into_a_row_fails(experiment, what, error):
    (failure,) = sweep.run(experiment.returns, [{"what": what}]).failures
    assert error in failure.error


def test_a_lambda_runs_here_and_nowhere_else(experiment, tmp_path):
    area = lambda a, b: a * b  # noqa: E731
    assert sweep.run(area, sweep.grid(a=[2, 3], b=4)).columns["value"] == [8, 12]
    elsewhere: list[dict[str, Any]] = [{"backend": "pool"}, {"backend": "ray"}, {"cache": tmp_path}]
    for settings in elsewhere:
        with pytest.raises(ValueError, match="must be a function of a module"):
            sweep.run(area, sweep.grid(a=[2], b=4), **settings)


def test_a_function_that_goes_by_anothers_name_is_refused(experiment, tmp_path):
    old = experiment.noisy
    load()
    with pytest.raises(ValueError, match="experiment:noisy is another function"):
        sweep.run(old, sweep.grid(n=[1]), cache=tmp_path)


def test_a_worker_does_not_start_workers(experiment):
    (failure,) = sweep.run(experiment.nested, sweep.grid(n=[1]), backend="pool").failures
    assert "guard the script" in failure.error


def test_an_error_in_the_middle_stops_the_workers_at_once(experiment):
    @contextmanager
    def failing(what, total):
        def advance(_):
            raise KeyboardInterrupt

        yield advance

    with pytest.raises(KeyboardInterrupt):
        sweep.run(experiment.slow, sweep.grid(n=range(5)), backend=sweep.Workers("pool", 2), progress=failing)
    assert [path.name for path in Path().glob("finished *")] == ["finished 0"]
    for line in Path("calls").read_text().splitlines():
        assert not Path(f"/proc/{line.split()[1]}").exists()


def test_progress_is_told_what_is_left_to_do(experiment, tmp_path):
    heard = []

    @contextmanager
    def progress(what, total):
        heard.append(total)
        yield heard.append

    sweep.run(experiment.fails, sweep.grid(n=[0, 1]), cache=tmp_path, progress=progress)
    sweep.run(experiment.fails, sweep.grid(n=[0, 1, 3, 4, 5]), cache=tmp_path, progress=progress)
    sweep.run(experiment.fails, sweep.grid(n=[0, 1]), cache=tmp_path, progress=progress)
    assert heard == [2, 1, 1, 3, 1, 1, 1]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_script_may_sweep_over_its_own_function(tmp_path, guarded):
    script = """
        from airpool_lab import sweep
        def double(n):
            return 2 * n
        if __name__ == "__main__" or not GUARDED:
            table = sweep.run(double, sweep.grid(n=[1, 2]), backend="pool", cache=".")
            print(table.function, [row["value"] for row in table.rows()], table.failures)
    """
    (tmp_path / "study.py").write_text(textwrap.dedent(script).replace("GUARDED", str(guarded)))
    done = subprocess.run([sys.executable, "study.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    if guarded:
        assert done.stdout == "study:double [2, 4] ()\n"
    else:
        assert done.stdout.count("guard the script") == 2


def test_two_workers_are_at_work_at_the_same_time(experiment):
    # Each point waits for its neighbour: one worker alone would wait in vain.
    made = sweep.run(experiment.meets, sweep.grid(n=range(20)), backend=sweep.Workers("pool", 2))
    assert made.columns["value"] == list(range(20))
    assert made.effort.measured == 20


# The cache


def test_what_is_kept_is_not_measured_again_and_a_grown_grid_measures_what_is_new(experiment, tmp_path):
    first = sweep.run(experiment.noisy, sweep.grid(n=[1, 2]), cache=tmp_path)
    again = sweep.run(experiment.noisy, sweep.grid(n=[1, 2]), cache=tmp_path)
    assert again == first
    assert (again.effort.measured, again.effort.cached) == (0, 2)
    grown = sweep.run(experiment.noisy, sweep.grid(n=[1, 2, 3]), cache=tmp_path, backend="pool")
    assert calls() == [1, 2, 3]
    assert grown == sweep.run(experiment.noisy, sweep.grid(n=[1, 2, 3]))


def test_another_seed_or_parameter_is_another_row(experiment, tmp_path):
    for seed, scale in ((0, 1.0), (1, 1.0), (0, 2.0), (0, 1)):
        sweep.run(experiment.noisy, sweep.grid(n=[1], scale=scale), seed=seed, cache=tmp_path)
    assert calls() == [1] * 4


def test_a_failed_point_is_tried_again(experiment, tmp_path):
    assert len(sweep.run(experiment.fails, sweep.grid(n=[1, 2]), cache=tmp_path).failures) == 1
    Path("mended").touch()
    mended = sweep.run(experiment.fails, sweep.grid(n=[1, 2]), cache=tmp_path)
    assert mended.columns["value"] == [1, 2]
    assert mended.effort.measured == 1
    assert sweep.run(experiment.fails, sweep.grid(n=[1, 2]), cache=tmp_path).effort.measured == 0


def test_infinity_and_nan_and_lists_come_back_from_the_cache_and_the_pool(experiment, tmp_path):
    here = sweep.run(experiment.odd, sweep.grid(n=[1]))
    there = sweep.run(experiment.odd, sweep.grid(n=[1]), backend="pool", cache=tmp_path)
    kept = sweep.run(experiment.odd, sweep.grid(n=[1]), backend="pool", cache=tmp_path)
    assert here == there == kept
    assert kept.columns["inf"] == [math.inf]
    assert math.isnan(kept.columns["nan"][0])
    assert kept.columns["list"] == [[1.5, None]]


def test_changed_code_starts_afresh_and_the_old_code_finds_its_rows_again(experiment, tmp_path):
    before = sweep.run(experiment.noisy, sweep.grid(n=[4]), cache=tmp_path, seed=1)
    source = Path("experiment.py")
    old = source.read_text()
    source.write_text(old.replace("scale * rng", "10 * scale * rng"))
    after = sweep.run(load().noisy, sweep.grid(n=[4]), cache=tmp_path, seed=1)
    assert after.columns["mean"][0] == pytest.approx(10 * before.columns["mean"][0])
    assert after.version != before.version
    source.write_text(old)
    assert sweep.run(load().noisy, sweep.grid(n=[4]), cache=tmp_path, seed=1) == before
    assert calls() == [4, 4]


def test_the_workers_of_the_pool_run_the_code_that_is_on_disk_now(experiment, tmp_path):
    before = sweep.run(experiment.seeded, sweep.grid(n=[1, 2]), backend=sweep.Workers("pool", 2))
    source = Path("experiment.py")
    source.write_text(source.read_text().replace("return seed", "return -seed"))
    after = sweep.run(load().seeded, sweep.grid(n=[1, 2]), backend=sweep.Workers("pool", 2))
    assert after.columns["value"] == [-value for value in before.columns["value"]]


def test_a_version_sees_the_functions_own_file_and_no_other(experiment, tmp_path):
    first = version_of(experiment.fails)
    (tmp_path / "beside.py").write_text("A = 1\n")
    assert version_of(experiment.fails) == version_of(experiment.noisy) == first
    with Path("experiment.py").open("a") as file:
        file.write("# changed\n")
    assert version_of(experiment.fails) != first
    assert version_of(experiment.fails).partition("+")[0] == __version__


def test_a_file_of_another_sweep_is_refused(experiment, tmp_path):
    sweep.run(experiment.fails, sweep.grid(n=[1]), cache=tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    assert sweep.records(path)[0] == {"function": "experiment:fails", "version": version_of(experiment.fails)}
    path.rename(tmp_path / path.name.replace("fails", "noisy"))
    with pytest.raises(ValueError, match=r"noisy-\w+\.jsonl is not of experiment:noisy, version .*: delete it"):
        sweep.run(experiment.noisy, sweep.grid(n=[1]), cache=tmp_path)
    assert calls() == []


def test_a_kill_in_the_first_write_leaves_a_file_that_is_used(experiment, tmp_path):
    whole = sweep.run(experiment.noisy, sweep.grid(n=[1]), cache=tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:40])
    for cached in (0, 1):
        again = sweep.run(experiment.noisy, sweep.grid(n=[1]), cache=tmp_path)
        assert again == whole
        assert again.effort.cached == cached


RECORDS = [{"key": f"{n}", "results": {"value": n / 3}} for n in range(4)]


def written(path, records=RECORDS):
    with sweep.appending(path) as append:
        for record in records:
            append(record)
    return path


def test_a_kill_in_the_middle_of_a_write_loses_that_row_and_no_other(tmp_path):
    whole = written(tmp_path / "whole").read_bytes()
    start = written(tmp_path / "start", RECORDS[:-1]).stat().st_size
    for end in range(start, len(whole) - 1):
        torn = tmp_path / "torn"
        torn.write_bytes(whole[:end])
        assert sweep.records(torn) == RECORDS[:-1]
        written(torn, RECORDS[-1:])
        assert sweep.records(torn) == RECORDS


def test_a_damaged_byte_costs_a_row_and_never_changes_one(tmp_path):
    path = written(tmp_path / "rows")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(len(whole), size=200):
        damaged = bytearray(whole)
        damaged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        found = sweep.records(path)
        assert len(found) >= len(RECORDS) - 2  # a line break may hold two together
        assert all(record in RECORDS for record in found)


def test_two_sweeps_may_write_to_one_cache_at_the_same_time(tmp_path):
    script = """
import sys
from pathlib import Path
from airpool_lab.sweep import appending
with appending(Path("rows")) as append:
    print("ready", flush=True)
    sys.stdin.read()
    for n in range(400):
        append({"key": f"{sys.argv[1]} {n}", "results": {"text": "x" * n}})
"""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(n)], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for n in range(3)
    ]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert len(sweep.records(tmp_path / "rows")) == 1200


# Tables


def test_a_csv_has_every_digit_and_says_how_it_came_about(experiment, tmp_path):
    made = sweep.run(experiment.noisy, sweep.grid(n=[2, 3]), seed=5, command="airpool sweep ...")
    made.write(tmp_path / "new" / "table.csv")
    first, *rows = (tmp_path / "new" / "table.csv").read_text().splitlines()
    assert first == f"# airpool {made.version}; experiment:noisy; seed 5; airpool sweep ..."
    read = list(csv.DictReader(rows))
    assert [float(row["mean"]) for row in read] == made.columns["mean"]
    assert [int(row["seed"]) for row in read] == made.columns["seed"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["table.csv"]


def test_a_csv_names_what_failed_and_keeps_lists(experiment, tmp_path):
    sweep.run(experiment.fails, sweep.grid(n=[1, 2])).to_csv(tmp_path / "failed.csv")
    assert (tmp_path / "failed.csv").read_text().splitlines()[1].startswith("# failed: n=2: ValueError: two is")
    sweep.run(experiment.odd, sweep.grid(n=[1])).to_csv(tmp_path / "odd.csv")
    (row,) = csv.DictReader((tmp_path / "odd.csv").read_text().splitlines()[1:])
    assert (row["inf"], row["nan"], json.loads(row["list"]), row["text"]) == ("inf", "nan", [1.5, None], "a,b")


def test_json_spells_what_json_cannot_say(experiment, tmp_path):
    made = sweep.run(experiment.odd, [{"n": math.inf}])
    made.write(tmp_path / "table.json")
    data = json.loads((tmp_path / "table.json").read_text(), parse_constant=pytest.fail)
    assert data == made.to_json()
    assert data["columns"]["n"] == data["columns"]["inf"] == ["inf"]
    assert data["columns"]["nan"] == ["nan"]


def test_parquet_keeps_types_and_the_header(experiment, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra `parquet`; make check installs it")
    made = sweep.run(experiment.noisy, [{"n": 2}, {"n": 3, "scale": 2.0}], seed=5)
    made.write(tmp_path / "table.parquet")
    read = parquet.read_table(tmp_path / "table.parquet")
    assert read.to_pydict() == made.columns
    assert json.loads(read.schema.metadata[b"airpool"])["seed"] == 5
    mixed = sweep.run(experiment.seeded, sweep.grid(n=["auto", 1.0]))
    with pytest.raises(ValueError, match="n: values of several types"):
        mixed.to_parquet(tmp_path / "mixed.parquet")


def test_without_pyarrow_parquet_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install .*airpool-lab\[parquet\]"):
        table.writer_for(Path("table.parquet"))


def test_without_joblib_the_pool_is_refused_with_what_to_do(experiment, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(ValueError, match=r"backend='pool' needs joblib: pip install .*airpool-lab"):
        sweep.run(experiment.fails, sweep.grid(n=[1]), backend="pool")


def test_without_ray_the_backend_is_refused_with_what_to_do(experiment, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install .*airpool-lab\[ray\]"):
        sweep.run(experiment.fails, sweep.grid(n=[1]), backend="ray")


# Bad input


@pytest.mark.parametrize(
    ("points", "settings", "message"),
    [
        ([{"colour": 1}], {}, "noisy: missing a required argument: 'n'; its parameters are n, scale"),
        ([{"n": 1, "colour": 1}], {}, "unexpected keyword argument 'colour'"),
        ([{"n": math.nan}], {}, "n=nan must be a number"),
        ([{"n": [1, [math.nan]]}], {}, r"n=\[1, \[nan\]\] must be a number"),
        ([{"n": {"a": 1}}], {}, "n={'a': 1} must be a number"),
        ([{"n": [{"a": 1}]}], {}, r"n=\[{'a': 1}\] must be a number"),
        ([{"n": 1, "scale": object}], {}, "scale=<class 'object'> must be a number"),
        ([{"n": 1, "rng": 1}], {}, "'rng' cannot be a parameter"),
        ([{"n": 1}], {"backend": "cloud"}, "backend='cloud' must be one of serial, pool, ray"),
        ([{"n": 1}], {"seed": -1}, "seed=-1 must be a whole number >= 0"),
        ([{"n": 1}], {"backend": sweep.Workers("pool", 0)}, "workers=0 must be at least 1"),
        ([{"n": 1}], {"backend": sweep.Workers("serial", 2)}, "workers=2 needs backend='pool' or 'ray'"),
        ([{"n": 1}], {"backend": sweep.Workers("pool", address="auto")}, "address='auto' needs backend='ray'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(experiment, points, settings, message):
    with pytest.raises(ValueError, match=message):
        sweep.run(experiment.noisy, points, **settings)
    assert calls() == []


def test_importing_sweeps_loads_next_to_nothing():
    heavy = ["numpy", "torch", "joblib", "ray", "pyarrow", "typer", "rich", "matplotlib"]
    code = f"import sys, airpool_lab.sweep; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
