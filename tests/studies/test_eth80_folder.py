"""ETH-80 as a folder, and a model of it by one command."""

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


def test_the_table_and_the_figure_are_drawn_from_the_record(tmp_path):
    eth80_folder.draw(Path(eth80_folder.__file__).parent / "results" / "cameras-eth80.json", tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".png", ".svg"}
    kept = Path(eth80_folder.__file__).parents[1] / "docs" / "figures" / "cameras-eth80.csv"
    assert (tmp_path / "cameras-eth80.csv").read_text() == kept.read_text()
