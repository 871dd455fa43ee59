"""The parts of `python -m benchmarks` that could be wrong without anybody noticing."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from airpool.models.vision.mvcnn import MVCNN, Architecture
from airpool_lab.vision import cad
from benchmarks import Row, sheet, trunk
from benchmarks.__main__ import TOPICS, print_table
from benchmarks.int8 import calibration_views, compared

ROOT = Path(__file__).resolve().parent.parent


def test_times_are_measured_in_benchmarks_and_not_in_tests():
    clocks = re.compile(r"perf_counter|process_time|time\.time\(|timeit|monotonic\(\) - ")
    tests = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "packages").glob("*/tests/**/*.py")]
    assert len(tests) > 50
    # Frames carry the time of day, which is no measured time; test_feed.py sets a clock of its own.
    moments = {"broken_source.py", "test_cameras.py", "test_feed.py"}
    found = {path.name for path in tests if clocks.search(path.read_text("utf-8"))}
    assert found - {Path(__file__).name} == moments


def test_no_property_fails_because_the_machine_is_busy():
    for name in ("airpool", "search"):
        profile = settings.get_profile(name)
        assert profile.deadline is None
        assert HealthCheck.too_slow in profile.suppress_health_check


def test_what_could_not_be_measured_is_shown_with_the_reason_and_misses_nothing(capsys):
    row = Row("trunk", "int8", None, "/s", trunk.MISSING, limit=1.0)
    assert not row.missed
    assert sheet.shown(None, "/s") == "–"
    print_table([row, Row("trunk", "slow", 2.0, "s", limit=1.0)])
    assert "-e './packages/airpool-lab[bundle]'" in capsys.readouterr().out


def test_the_median_leaves_out_the_first_round_and_takes_turns():
    order = []
    found = trunk.medians({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2)
    assert order == ["a", "b"] * 3
    assert found.keys() == {"a", "b"}


def test_the_made_up_objects_turn_and_differ():
    some = trunk.objects(3)
    assert some.num_meshes == 3
    assert 3 * 1900 < len(some.corners) <= 3 * 2048  # at the poles some have no area
    seen = trunk.object_views(some)[:, :, 1]
    covered = (seen > 0).float().mean((2, 3))
    assert (covered > 0.05).all()
    assert (covered[0] < covered[2]).all()
    assert (seen[0, 0] - seen[0, 3]).abs().max() > 0.1


def test_the_cuda_benchmark_needs_torch_and_numpy_alone():
    code = """
import sys
for name in ("scipy", "typer", "rich", "matplotlib", "dp_accounting", "onnxruntime"):
    sys.modules[name] = None
sys.argv = ["trunk", "--objects", "1"]
from benchmarks import trunk
trunk.medians.__kwdefaults__["rounds"] = 1
trunk.main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"rendered_per_second"' in done.stdout


def test_a_view_costs_what_vgg11_costs():
    # Σ 2 · 9 · channels in · channels out · pixels, for the eight convolutions at 112 px
    layers = [(2, 64, 112), (64, 128, 56), (128, 256, 28), (256, 256, 28)]
    layers += [(256, 512, 14), (512, 512, 14), (512, 512, 7), (512, 512, 7)]
    expected = sum(2 * 9 * i * o * side**2 for i, o, side in layers) / 1e9
    assert trunk.gflop(trunk.made(), torch.zeros(1, 2, 112, 112)) == pytest.approx(expected)


def test_calibration_sees_training_objects_alone():
    square = np.array([[0, 0, 0], [9, 0, 0], [9, 9, 0], [0, 9, 0]])
    real, nothing = np.array([[0, 1, 2], [0, 2, 3]]), np.array([[0, 0, 0]])
    train = np.arange(30) < 20
    packed = [cad.pack(square, real if own else nothing) for own in train]
    columns = {"label": np.zeros(30, int), "classes": np.array(["a"]), "name": np.arange(30).astype(str)}
    columns |= {"split": np.where(train, "train", "test"), "source": np.repeat("cad", 30)}
    views = calibration_views(cad.joined(packed, **columns), 6, resolution=16)
    assert views.shape == (6, 2, 16, 16)
    assert (views.amax((1, 2, 3)) > 0).all()
    assert torch.equal((views * 255).round() / 255, views)


class Other(torch.nn.Module):
    """A trunk that is off by a known part, and on some objects by all."""

    def __init__(self, features, factor):
        super().__init__()
        self.features, self.factor = features, factor

    def forward(self, views):
        return self.features(views) * self.factor


def test_the_comparison_finds_what_differs():
    torch.manual_seed(0)
    model = MVCNN(Architecture(num_classes=3)).eval()
    model.classifier[-1].bias.data = torch.tensor([0.0, 0.0, 1e-3])  # the answer to an empty map
    views = torch.rand(5, 2, 2, 112, 112)
    own = model(views).argmax(1)
    batches = [(views[:3], own[:3]), (views[3:], own[3:])]

    near = compared(model, Other(model.features, 1.01), batches)
    assert near["objects"] == 5
    assert near["float32"] == near["int8"] == 1
    assert near["map_error"] == pytest.approx(0.01, rel=1e-3)
    assert near["pooled_error"] == pytest.approx(0.01, rel=1e-3)
    assert near["changed"] == near["difference"] == near["difference_std"] == 0

    gone = compared(model, Other(model.features, 0.0), batches)
    assert gone["map_error"] == pytest.approx(1)
    assert gone["changed"] == pytest.approx(float((own != 2).double().mean()))
    assert gone["difference"] == pytest.approx(-gone["changed"])


# Parts of which nothing else can be had, and why.
ALONE = {
    "reports": "nothing else computes ε of such radios",
    "growth with K": "the curves have the rivals",
    "example": "the whole of a newcomer's script",
}


def test_the_page_is_drawn_from_the_record_and_every_part_stands_beside_a_rival():
    about, rows, curves = sheet.read(sheet.RECORD)
    assert sheet.PAGE.read_text("utf-8") == sheet.markdown(about, rows, curves)
    assert {row.topic for row in rows} - {row.topic for row in rows if row.rival} == set(ALONE)
    assert all(row.beside for row in rows if row.rival)
    assert len(curves) >= 5
    assert about.keys() >= {"date", "processor", "cpus", "python", "version", "command", "load"}
    for curve in curves:
        assert all(len(line) == len(curve.x) for line in curve.lines.values())
        assert (ROOT / "docs" / "figures" / f"bench-{curve.name}.svg").exists()


def test_every_record_of_a_longer_run_is_on_the_page():
    records = {path.stem for path in sheet.RECORD.parent.glob("*.json")} - {sheet.RECORD.stem}
    assert records == set(sheet.KEPT)
    for _, command in sheet.KEPT.values():
        assert (ROOT / "benchmarks" / f"{command.split()[0]}.py").exists()


def test_every_topic_has_a_module():
    for topic, function in TOPICS.items():
        assert (ROOT / "benchmarks" / f"{function.partition(':')[0] if ':' in function else topic}.py").exists()
