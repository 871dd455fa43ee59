"""The tutorials: clean notebooks in the repository, which run when the site is built."""

import ast
import json
import re

import pytest

from tests.docs.sources import ROOT
from tests.docs.test_site import SITE, needs_sphinx, site

NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
_ = site  # the fixture that builds it


def cells(path, kind=None):
    found = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in found if kind in (None, cell["cell_type"])]


def source(cell):
    return "".join(cell["source"])


def test_there_is_a_notebook_for_each_of_eight_questions():
    assert [path.name[:3] for path in NOTEBOOKS] == [f"{number:02d}-" for number in range(1, 9)]


@each_notebook
def test_a_notebook_is_committed_without_results_and_names_a_common_kernel(path):
    whole = json.loads(path.read_text("utf-8"))
    assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5)
    assert whole["metadata"]["kernelspec"]["name"] == "python3"
    names = [cell["id"] for cell in whole["cells"]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    for cell in whole["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"outputs", "execution_count"} if cell["cell_type"] == "code" else set()
        )
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@each_notebook
def test_a_notebook_begins_with_a_title_and_ends_with_links(path):
    first, last = cells(path)[0], cells(path, "markdown")[-1]
    assert first["cell_type"] == "markdown"
    assert re.match(r"# \S", source(first))
    links = re.findall(r"\]\(([^)#]+)", source(last))
    assert links
    assert all((path.parent / link).is_file() for link in links)


@each_notebook
def test_a_notebook_is_python_without_paths_of_a_machine_or_addresses_outside(path):
    for cell in cells(path):
        assert not re.search(r"(?<![\w.])/(work|root|home|tmp|Users|opt)/", source(cell)), source(cell)
        assert "../shared" not in source(cell)
    code = [source(cell) for cell in cells(path, "code")]
    for each in code:
        ast.parse(re.sub(r"^[%!].*$", "pass", each, flags=re.MULTILINE))
    addresses = re.findall(r"https?://([\w.{}]+)", "\n".join(code))
    assert set(addresses) <= {"127.0.0.1", "localhost"}


@each_notebook
def test_a_notebook_removes_the_folder_that_it_makes(path):
    code = "\n".join(source(cell) for cell in cells(path, "code"))
    made = "mkdtemp" in code
    assert not made or "rmtree(folder)" in code


@needs_sphinx
@pytest.mark.check
@each_notebook
def test_a_notebook_runs_to_its_end_where_the_site_is_built(path, site):
    """The build stops at the first error of a notebook; here its page has the results."""
    page = (SITE / "tutorials" / f"{path.stem}.html").read_text("utf-8")
    assert page.count("cell_output") > 3
    assert "Traceback (most recent call last)" not in page
    assert "IPKernelApp" not in page
