"""The public names: recorded, documented, each with an example that runs."""

import importlib.util
import re
from pathlib import Path

import pytest

import airpool

ROOT = Path(__file__).parents[1]
HOW = """
{path} is no longer what airpool has:
{what}
If it was meant: run `python docs/_ext/public.py`, commit the file, and say in CHANGELOG.md what changed. New names and
options may come at any time. What was released is removed or changed only after a deprecation: a version that still has
it, and warns (docs/project/versions.md)."""


@pytest.fixture(scope="module")
def public():
    return module("public")


def module(name):
    """A module of the site's own, which are no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("kind", ["names", "commands"])
def test_public_names_are_the_recorded_ones(public, kind):
    path, now = getattr(public, kind.upper()), getattr(public, f"recorded_{kind}")()
    before = path.read_text("utf-8").splitlines()
    gone = [f"  gone or changed: {line}" for line in before if line not in now]
    new = [f"  new or changed:  {line}" for line in now if line not in before]
    if gone or new or before != now:
        pytest.fail(HOW.format(path=path.relative_to(ROOT), what="\n".join([*gone, *new]) or "  another order"))


def test_every_name_that_airpool_exports_is_public(public):
    listed = [name for page in public.PAGES.values() for name in page.names]
    assert sorted(each.removeprefix("airpool.") for each in listed if each.count(".") == 1) == sorted(airpool.__all__)
    assert len(listed) == len(set(listed))


def test_every_public_name_has_a_docstring(public):
    assert [each.name for each in public.everything() if each.kind != "field" and not each.doc] == []


# Fields that say it by their name; those of Scheme 2.2 that are described with Scheme 2.1.
PLAIN = ("name", "network", "report", "label", "labels", "seed", "progress", "version")
SHARED = ("score", "score_rule", "score_bound", "score_noise_std")


def test_every_field_of_a_public_class_is_described_in_its_docstring(public):
    lacking = [
        each.name
        for top in (public.public(name) for page in public.PAGES.values() for name in page.names)
        for each in public.members(top)
        if each.kind == "field" and each.last not in (*PLAIN, *(SHARED if top.last == "Ranking" else ()))
        if not re.search(rf"\b{each.last}\b", prose(top.doc))
    ]
    assert lacking == []


def prose(doc):
    return "\n".join(line for line in doc.splitlines() if not line.lstrip().startswith((">>>", "...")))


def test_every_public_name_has_an_example(public):
    lacking = []
    for name in (name for page in public.PAGES.values() for name in page.names):
        top = public.public(name)
        shown = "\n".join(re.findall(r"(?:>>>|\.\.\.) (.*)", top.doc))
        if ">>>" not in top.doc and not re.search(r"Example: `(\w+)`", top.doc):
            lacking.append(name)
        if getattr(top.value, "_is_protocol", False):
            continue
        shown += "".join(elsewhere(public, top))
        called = [each for each in public.members(top) if each.kind in ("method", "property")]
        lacking += [e.name for e in called if ">>>" not in e.doc and not re.search(rf"\.{e.last}\b", shown)]
    assert lacking == []


def elsewhere(public, top):
    """Examples that a docstring points to."""
    for name in re.findall(r"Example: `(\w+)`", top.doc):
        yield next(e.doc for e in public.everything() if e.last == name and e.name.count(".") <= 4 and ">>>" in e.doc)


def test_the_reference_has_an_entry_for_every_public_name_command_and_option(public):
    pages = module("reference").pages()
    heads = re.findall(r"^:{3,4}\{(?:py:)?(\w+)\} (\S+?)(?:\(|$| )", "\n".join(pages.values()), re.M)
    named = {name for kind, name in heads if kind in ("function", "class", "exception", "data")}
    assert named == {name for page in public.PAGES.values() for name in page.names}
    assert {e.last for e in public.everything() if e.kind in ("method", "property")} <= {name for _, name in heads}
    for words, command, ctx in public.commands():
        if words:
            section = next(text for name, text in pages.items() if f"# airpool {words}\n" in text)
            section = section.partition(f"# airpool {words}\n")[2].partition("\n## ")[0]
            shown = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
            assert [o for param in shown for o in param.opts if o.startswith("--") and o not in section] == []
