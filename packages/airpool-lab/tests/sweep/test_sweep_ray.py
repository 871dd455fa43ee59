"""Sweeps on Ray: a real cluster of two nodes on this machine, and the local one that a sweep starts for itself."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytestmark = pytest.mark.check
pytest.importorskip("ray", reason="needs the extra `ray`; make check installs it")

AIRPOOL = Path(sys.executable).with_name("airpool")

EXPERIMENT = """
import os, time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
import numpy as np
from beside import doubled

def noisy(n, rng):
    time.sleep(0.05)
    return {"mean": rng.standard_normal(1000).mean(), "double": doubled(n)}

def place(n):
    import airpool, beside, ray, torch
    time.sleep(0.3)
    node = ray.get_runtime_context().get_node_id()
    return {"node": node, "airpool": airpool.__file__, "beside": beside.__file__, "threads": torch.get_num_threads()}

def picky(n):
    if n == 1:
        raise ValueError("not one")
    if n == 2:
        os._exit(3)
    return n

def listening(n):
    # Addresses on which this worker and Ray's own process above it accept connections.
    sockets = set()
    for fd in (fd for pid in (os.getpid(), os.getppid()) for fd in Path(f"/proc/{pid}/fd").iterdir()):
        with suppress(FileNotFoundError):
            sockets.add(os.readlink(fd))
    rows = [row.split() for kind in ("tcp", "tcp6") for row in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
    return [row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
"""

# Nodes of one CPU each, on the loopback interface alone; gone when the standard input is closed.
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "experiment.py").write_text(EXPERIMENT)
    (tmp_path / "beside.py").write_text("def doubled(n):\n    return 2 * n\n")
    return tmp_path


@pytest.fixture(scope="module")
def environment():
    return os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # keeps Ray to 127.0.0.1
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "OMP_NUM_THREADS": "2",
    }


@pytest.fixture(scope="module")
def address(environment):
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
        assert cluster.poll() is None
        cluster.communicate(timeout=600)


def sweep(folder, function, number, *flags, env, status=0):
    command = [AIRPOOL, "sweep", function, "--set", f"n={','.join(map(str, range(number)))}", "--no-cache", "--json"]
    done = subprocess.run([*command, *flags], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_two_nodes_give_the_same_table_as_this_process_and_live_on(folder, environment, address):
    here = sweep(folder, "experiment:noisy", 12, "--backend", "serial", env=environment)
    for _ in range(2):
        there = sweep(folder, "experiment:noisy", 12, "--backend", "ray", "--address", address, env=environment)
        assert there | {"command": ""} == here | {"command": ""}


def test_both_nodes_work_with_the_code_that_was_sent_to_them(folder, environment, address):
    # From elsewhere: Ray's workers look into the folder where the sweep was started, which other machines do not have.
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    env = environment | {"PYTHONPATH": str(folder)}
    flags = ["--backend", "ray", "--address", address]
    columns = sweep(elsewhere, "experiment:place", 12, *flags, env=env)["columns"]
    assert len(set(columns["node"])) == 2
    for module in ("airpool", "beside"):
        assert all("py_modules_files" in path for path in columns[module])
    assert set(columns["threads"]) == {1}


def test_on_a_cluster_a_failed_point_or_a_lost_process_is_reported_and_the_rest_goes_on(folder, environment, address):
    flags = ["--backend", "ray", "--address", address]
    made = sweep(folder, "experiment:picky", 6, *flags, env=environment, status=1)
    assert made["columns"]["value"] == [0, 3, 4, 5]
    first, second = (failure["error"] for failure in made["failures"])
    assert first.startswith("ValueError: not one (experiment.py:")
    assert "ActorDiedError" in second


def test_without_an_address_ray_runs_on_this_machine_alone_and_leaves_nothing_behind(folder, environment):
    env = {name: value for name, value in environment.items() if name != "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"}
    with TemporaryDirectory(prefix="ray-") as short:  # the paths of its sockets must be, too
        env["RAY_TMPDIR"] = short
        made = sweep(folder, "experiment:listening", 2, "--backend", "ray", "--workers", "2", env=env)
        running = [Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit()]
        assert not [path for path in running if path.exists() and short.encode() in path.read_bytes()]
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    for addresses in made["columns"]["value"]:
        assert addresses
        assert set(addresses) <= loopback


def test_a_cluster_that_is_not_there_ends_with_status_2_and_one_line(folder, environment):
    command = [AIRPOOL, "sweep", "experiment:noisy", "--set", "n=1", "--backend", "ray", "--address", "127.0.0.1:1025"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: no Ray cluster can be used at 127.0.0.1:1025: ")
    assert "Traceback" not in done.stderr
