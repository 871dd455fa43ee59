"""ETH-80 as a folder, a model of it by one command, and sixteen processes that run it."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airpool import cli

pytest.importorskip("PIL.Image")

from studies import eth80_folder

DATA = Path(os.environ.get("AIRPOOL_ETH80") or Path(__file__).parents[2] / "../shared/data/eth80_photos.npz")


@pytest.mark.check
@pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not there: set AIRPOOL_ETH80")
def test_four_cameras_name_objects_from_their_photographs_alone(tmp_path):
    eth80_folder.write(DATA, tmp_path / "eth80", cameras=4)
    out = tmp_path / "eth80.safetensors"
    arguments = ["fit", "--images", str(tmp_path / "eth80"), "--out", str(out), "--epsilon", "8", "--json"]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert (record["pictures"], record["tested"]) == (320, 16)
    assert record["table"]["vote"]["no noise"]["mean"] >= 0.875  # 14 of 16; sixteen cameras have .988 over all folds


@pytest.mark.check
@pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not there: set AIRPOOL_ETH80")
def test_sixteen_processes_that_read_photographs_say_what_the_simulator_says(tmp_path):
    """Five objects of each class; int8, then seeded noise label by label, then live noise with keys and ledgers."""
    for module in ("onnx", "onnxruntime", "grpc", "cryptography"):
        pytest.importorskip(module)
    from studies.eth80_running import Running, write_list

    eth80_folder.write(DATA, tmp_path / "eth80")
    for path in (tmp_path / "eth80").glob("*/*/*.jpg"):
        if int(path.stem) % 10 >= 5:
            path.unlink()
    model, bundle = tmp_path / "eth80.safetensors", tmp_path / "eth80.zip"
    fit = ["fit", "--images", str(tmp_path / "eth80"), "--out", str(model), "--epsilon", "2", "--trials", "5"]
    done = CliRunner().invoke(cli.app, fit)
    assert done.exit_code == 0, done.output
    listed = write_list(tmp_path / "eth80")
    done = CliRunner().invoke(cli.app, ["bundle", "--model", str(model), "--images", str(listed), "--out", str(bundle)])
    assert done.exit_code == 0, done.output
    it = Running(tmp_path / "eth80")
    assert (it.devices, len(it.labels)) == (16, 8)
    alone = it.photographs()
    assert alone["photographs"] == 128
    assert alone["changed"] <= 3  # .5 % of a thousand were; of 128 more than 3 in one of 200 runs
    same = it.label_by_label(0.5, 24)
    assert same["changed"] <= 1  # none of 192 was
    live = it.live(0.5, 40)
    assert (live["answered"], live["booked"]) == (40, [40])
    assert abs(live["processes"] - live["simulator"]) < 4 * live["error"] + 1 / 40


def test_the_page_has_the_numbers_of_the_run():
    root = Path(eth80_folder.__file__).parents[1]
    record = json.loads((root / "studies" / "results" / "eth80-running.json").read_text("utf-8"))
    page = (root / "docs" / "howto" / "cameras.md").read_text("utf-8").partition("**Running.**")[2]
    found, expected, error = (
        [f"{each[name]:.3f}".removeprefix("0") for each in record["live"]]
        for name in ("processes", "simulator", "error")
    )
    assert f"| processes, int8 | {found[0]} | {found[1]} |" in page
    assert f"| simulator, float32 | {expected[0]} ± {error[0]} | {expected[1]} ± {error[1]} |" in page
    assert [each["changed"] for each in record["seeded"]] == [0, 0]
    assert f"Of the {record['photographs']['photographs']} photographs alone, int8 changes the" in page
    assert f"label of {record['photographs']['changed']};" in page
    every = record["all_places"]
    assert f"Of {every['photographs']} photographs from all 41 places" in page
    share = f"{100 * every['changed'] / every['photographs']:.2f}".removeprefix("0")
    assert f"changes {every['changed']} ({share} %)" in page


def test_the_table_and_the_figure_are_drawn_from_the_record(tmp_path):
    eth80_folder.draw(Path(eth80_folder.__file__).parent / "results" / "cameras-eth80.json", tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".png", ".svg"}
    kept = Path(eth80_folder.__file__).parents[1] / "docs" / "figures" / "cameras-eth80.csv"
    assert (tmp_path / "cameras-eth80.csv").read_text() == kept.read_text()
