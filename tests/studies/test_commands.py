"""Every study still runs: those that take arguments explain themselves, those that only draw draw what is committed."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from studies.shapes import picture
from studies.tables import FIGURES

from studies import air_figures, guarantee_figures

ROOT = Path(__file__).parents[2]
COMMANDS = ("theory_figures", "selection_study", "fig_asymptotics", "train_trunk", "train_codecs")
COMMANDS += ("encode_views", "heterogeneous", "audit_slots", "paper_refuted", "energy_detection")
COMMANDS += ("attack_decoders", "attack_figures", "attack_server", "comparison")


def cells(path: Path) -> tuple[list[str], list[float]]:
    """The cells of a table that are text, and those that are numbers."""
    text: list[str] = []
    numbers: list[float] = []
    for line in path.read_text("utf-8").splitlines():
        for cell in next(csv.reader([line])) if not line.startswith("#") else ():
            try:
                numbers.append(float(cell))
            except ValueError:
                text.append(cell)
    return text, numbers


@pytest.mark.check
@pytest.mark.parametrize("name", COMMANDS)
def test_a_study_explains_itself(name):
    done = subprocess.run(
        [sys.executable, "-m", f"studies.{name}", "--help"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


@pytest.mark.check
@pytest.mark.parametrize("study", [guarantee_figures, air_figures], ids=lambda study: study.__name__)
def test_the_committed_data_of_a_figure_are_computed_again(study, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FIGURES", tmp_path)
    study.main()
    made = sorted(tmp_path.glob("*.csv"))
    assert made
    for path in made:
        (text, numbers), (kept_text, kept_numbers) = cells(path), cells(FIGURES / path.name)
        assert text == kept_text
        assert numbers == pytest.approx(kept_numbers, rel=1e-6)


@pytest.mark.check
def test_the_sheet_of_shapes_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(picture, "SHEET", tmp_path / "shapes.png")
    picture.main()
    assert (tmp_path / "shapes.png").stat().st_size > 100_000
