"""Formulas of the pages: the converter understands every one of them."""

import re
from pathlib import Path

import pytest

converter = pytest.importorskip("latex2mathml.converter", reason="comes with the extra `docs`")

ROOT = Path(__file__).parents[1]
PAGES = [path for folder in ("theory", "proofs", "howto", "results") for path in (ROOT / "docs" / folder).glob("*.md")]


def formulas(text):
    """Displayed and inline formulas, without what stands in code."""
    prose = re.sub(r"^```.*?^```$|^(?: {4}|>>>)[^\n]*$|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    shown = r"\$\$(.+?)\$\$"
    inline = re.sub(shown, "", prose, flags=re.DOTALL)
    return re.findall(shown, prose, re.DOTALL) + re.findall(r"(?<![\\\w$])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\d$])", inline)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_formula_becomes_mathml_without_a_trace_of_latex(path):
    for formula in formulas(path.read_text("utf-8")):
        text = re.sub(r"<[^>]*>", "", converter.convert(formula.strip(), display="block"))
        assert "\\" not in text, formula
        assert not re.search(r"&(?!#)", text), formula  # an alignment that was not understood


def test_the_pages_of_theory_have_formulas():
    theory = [path.read_text("utf-8") for path in PAGES if path.parent.name in ("theory", "proofs")]
    assert sum(map(len, map(formulas, theory))) >= 48


@pytest.mark.parametrize("lost", [r"\nosuchcommand x", r"\begin{aligned} a &= b \end{aligned}"])
def test_what_the_converter_does_not_know_is_found(lost):
    text = re.sub(r"<[^>]*>", "", converter.convert(lost))
    assert "\\" in text or re.search(r"&(?!#)", text)
