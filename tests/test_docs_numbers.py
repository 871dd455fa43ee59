"""Numbers that pages quote from committed results are those of the results.

A quotation is a pattern of a document with a group for every number, and the numbers as the file gives them.
"""

import csv
import json
import math
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import airpool
from airpool.account.lifetime import mean_epsilon
from airpool.account.odds import percent
from airpool.account.report import shown
from airpool.account.statement import statement
from airpool.network import Slots
from airpool_lab.paper import figures
from airpool_lab.paper.formulas.theorem2 import TABLE_2
from studies import audit_slots, paper_refuted
from studies.comparison import EPSILONS, WAYS, printed

ROOT = Path(__file__).parents[1]
FIGURES, RESULTS = ROOT / "docs" / "figures", ROOT / "packages/airpool-lab/studies/results"
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def table(name: str, folder: Path = FIGURES, **chosen: object) -> list[dict[str, str]]:
    lines = [line for line in (folder / name).read_text("utf-8").splitlines() if not line.startswith("#")]
    return [row for row in csv.DictReader(lines) if all(row[k] == str(v) for k, v in chosen.items())]


def three(value: float | str) -> str:
    """An accuracy, as in the tables: .918."""
    return f"{float(value):.3f}".removeprefix("0")


def least(value: str) -> str:
    """A lower bound, rounded down."""
    return f"{math.floor(1000 * float(value)) / 1000:.3f}".removeprefix("0")


def compared(way: str) -> list[str]:
    return [three(row["accuracy"]) for row in table("comparison.csv", way=way)]


@cache
def verdicts() -> list[str]:
    counts = Counter(figures.result(name).finding(figures.stored(name).rows).holds for name in figures.IDS)
    return [WORDS[len(figures.IDS)], *(WORDS[counts[kind]] for kind in ("yes", "partly", "no"))]


def printed_in_paper() -> list[str]:
    return [three(TABLE_2["1"][epsilon].mean) for epsilon in (3.9811, 10.0)]


def slots() -> list[str]:
    """Accuracy until sure, ε of the mean, and inferences of a budget of 8: until sure, and in one slot each."""
    (asked,) = table("slots.csv", channel="ideal", epsilon="2.0", slots="16", most_mu_square="0.12", trials="20")
    net = airpool.calibrate(airpool.Network.uniform(num_devices=12, slots=Slots(16)), epsilon=2.0)
    mean = mean_epsilon(net, airpool.Claim(), float(asked["slots_mean"]))
    run = json.loads((ROOT / "benchmarks/results/budget.json").read_text("utf-8"))["runs"]["0"]
    lasted = [f"{math.floor(run[way]['inferences'])}" for way in ("until_sure", "single_slot")]
    assert three(run["accuracy"]) == three(asked["accuracy"])
    return [three(asked["accuracy"]), shown(mean, 2), *lasted]


def design(way: str) -> str:
    rows = json.loads((RESULTS / "heterogeneous.json").read_text("utf-8"))["settings"]["others 2"]["rows"]
    (row,) = [row for row in rows if (row["way"], row["epsilon_strict"]) == (way, 0.5)]
    return f"{100 * row['accuracy_mean']:.1f}"


def certificates(codec: str, epsilon: float) -> list[str]:
    (row,) = table("certificates.csv", channel="ideal", epsilon=str(epsilon))
    return [least(row[f"{codec}_half_spaces"]), three(row[f"{codec}_measured"])]


def half_spaces(codec: str) -> list[str]:
    found = [least(row[f"{codec}_half_spaces"]) for row in table("certificates.csv", channel="ideal")]
    return ["0" if each == ".000" else each for each in found]


def by_theorem1() -> list[str]:
    """Range of our accuracies by the paper's own account, and of the paper's, over Table 2."""
    names = ("1", "2.1", "2.2")
    ours = [
        row["accuracy"]
        for row in figures.stored("table-2").rows
        if row["account"] == "feature" and row["scheme"] in names
    ]
    theirs = [cell.mean for scheme in names for cell in TABLE_2[scheme].values()]
    return [f"{end:.2f}".removeprefix("0") for each in (ours, theirs) for end in (min(each), max(each))]


def odds_at_one() -> list[str]:
    net = airpool.calibrate(airpool.Network.uniform(num_devices=12), epsilon=1.0)
    return [percent(airpool.odds(net).worst).removesuffix(" %")]


def h200() -> list[str]:
    rows = json.loads((ROOT / "benchmarks/results/air-h200.json").read_text("utf-8"))["rows"]
    return [f"{math.floor(max(row['per_second'] for row in rows) / 1e7) * 10}"]


def shipped() -> list[str]:
    files = (ROOT / "packages/airpool-models/src/airpool_models/modelnet40").iterdir()
    return [f"{sum(file.stat().st_size for file in files) / 1e6:.0f}"]


ROW = r" \| ".join([r"(\.\d{3})"] * 4)
PROVEN = r" \| \**([.\d]+)\**" * 8
HOLD = r"Of\s+the\s+paper's\s+(\w+)\s+results\s+(\w+)\s+hold,\s+(\w+)\s+hold\s+in\s+part\s+and\s+(\w+)\s+do\s+not"
OURS = r"\| airpool, exact ε \(zero-out\), ideal channel \| " + ROW
PRINTED = r"as printed \(ε = 3.98 and 10\) \| \| \| (\.\d{3}) \| (\.\d{3})"
QUOTATIONS = [
    ("README.md", OURS, lambda: compared("airpool")),
    ("README.md", r"local noise on each device \| " + ROW, lambda: compared("local")),
    ("README.md", r"no noise: [^|]* \| " + ROW, lambda: compared("sum") * 2 + compared("split") * 2),
    ("README.md", r"the paper's codec and its Theorem 1, by airpool \| " + ROW, lambda: compared("paper")),
    ("README.md", PRINTED, printed_in_paper),
    ("README.md", HOLD, verdicts),
    ("README.md", r"answered right (\d+\.\d) %", odds_at_one),
    ("docs/howto/guide.md",
     r"the accuracy is (\.\d{3}), and an inference spends as much as ε = (\d\.\d\d) on average[^_]*?"
     r"about (\d+) inferences on average, where the cheapest single slot of equal accuracy makes (\d+)", slots),
    ("docs/howto/guide.md", OURS, lambda: compared("airpool")),
    ("docs/howto/guide.md", r"the paper's codec and its Theorem 1 \| " + ROW, lambda: compared("paper")),
    ("docs/howto/guide.md", PRINTED, printed_in_paper),
    ("docs/howto/guide.md", HOLD, verdicts),
    ("docs/howto/guide.md", r"uniform weights name (\d+\.\d) % of the test objects, these (\d+\.\d) %",
     lambda: [design("uniform"), design("weights")]),
    ("docs/howto/guide.md",
     r"ε = 2 at least (\.\d{3}) \(measured (\.\d{3})\) and at ε = 4 at least (\.\d{3}) \((\.\d{3})\) "
     r"for the vote, (\.\d{3}) \((\.\d{3})\) and (\.\d{3}) \((\.\d{3})\) for",
     lambda: [n for codec in ("vote", "compact") for epsilon in (2.0, 4.0) for n in certificates(codec, epsilon)]),
    ("docs/theory/accuracy.md",
     r"compact, measured[^…]*… proven: half-spaces" + PROVEN, lambda: half_spaces("compact")),
    ("docs/theory/accuracy.md", r"the vote, measured[^…]*… proven: half-spaces" + PROVEN, lambda: half_spaces("vote")),
    ("docs/howto/guide.md", r"our accuracies are (\.\d\d) to (\.\d\d) where its\s+Table 2 prints (\.\d\d) to (\.\d\d)",
     by_theorem1),
    ("docs/howto/guide.md", r"is drawn at once: (\d+) million inferences a second on one H200", h200),
    ("docs/howto/guide.md", r"what ships with its size \((\d+) MB in\s+all\)", shipped),
]  # fmt: skip


def prose(document: str) -> str:
    """A document without its fenced code."""
    return re.sub(r"^```.*?^```", "", (ROOT / document).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("document", "pattern", "numbers"), QUOTATIONS, ids=map(str, range(len(QUOTATIONS))))
def test_a_quoted_number_is_that_of_its_file(document, pattern, numbers):
    found = re.search(pattern, prose(document))
    assert found, f"{document} no longer says: {pattern}"
    assert list(found.groups()) == numbers()


def test_the_guide_prints_what_the_demo_found():
    text = (ROOT / "docs/howto/guide.md").read_text("utf-8")
    rows = {row["epsilon"]: row for row in table("demo-accuracy.csv", codec="vote")}
    for epsilon in ("1.0", "2.0", "3.9811"):
        row = rows[epsilon]
        four = [shown(float(row[f"epsilon_{name}"])) for name in ("claimed", "remove", "local", "object")]
        accuracy = f"{float(row['accuracy_mean']):.4f} ± {float(row['accuracy_std']):.4f}"
        low, high = (f"{float(row[f'accuracy_{end}']):.3f}" for end in ("low", "high"))
        line = next(line for line in text.splitlines() if re.match(rf" {float(epsilon):g}\s", line))
        assert line.split()[1:11] == [*four, *accuracy.split(), low, "–", high]


def test_the_table_of_the_comparison_is_that_of_its_results():
    text = (ROOT / "docs/results/comparison.md").read_text("utf-8")
    shown_there = text.split("<!-- table: python -m studies.comparison -->\n")[1].split("\n<!-- end -->")[0]
    assert shown_there.splitlines() == printed()
    rows = table("comparison.csv")
    assert len(rows) == sum(len(EPSILONS) if way.protected else 1 for way in WAYS.values())
    assert max(float(row["accuracy_std"]) for row in rows) <= 0.009
    assert max(float(row["accuracy_high"]) - float(row["accuracy_low"]) for row in rows) < 0.0215
    local = [f"{math.ceil(10 * float(row['epsilon_local'])) / 10:g}" for row in table("comparison.csv", way="airpool")]
    assert "the local ε: {}, {}, {} and {} for".format(*local) in text


def test_tables_of_studies_are_those_of_their_results():
    for page, lines in {"theory/guarantee.md": paper_refuted.table(), "howto/slots.md": audit_slots.told()}.items():
        there = (ROOT / "docs" / page).read_text("utf-8").splitlines()
        assert [line for line in lines if line and line not in there] == [], page


def test_the_page_of_cameras_has_the_numbers_of_the_run():
    record = json.loads((RESULTS / "eth80-running.json").read_text("utf-8"))
    page = (ROOT / "docs/howto/cameras.md").read_text("utf-8").partition("**Running.**")[2]
    found, expected, error = (
        [three(each[name]) for each in record["live"]] for name in ("processes", "simulator", "error")
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


def test_what_is_compared_has_the_epsilon_that_it_claims():
    for row in table("comparison.csv"):
        if row["way"] not in ("paper", "sum", "split"):
            assert float(row["epsilon_device"]) == pytest.approx(float(row["epsilon"]), rel=1e-6)
            assert float(row["epsilon_device"]) <= float(row["epsilon"])
    assert compared("central") == compared("airpool") == compared("secure")


def test_the_paper_is_cited_where_a_reader_begins():
    cited = (ROOT / "CITATION.cff").read_text("utf-8")
    title = re.search(r"- type: article\n    title: (.*)", cited)
    number = re.search(r"arXiv:(\S+)", cited)
    assert title
    assert number
    templates, lead = (
        ROOT / "packages/airpool/src/airpool/_support/templates/demo.html",
        "packages/airpool-lab/src/airpool_lab/paper/figures/statements.toml",
    )
    places = {
        "README.md": " ".join((ROOT / "README.md").read_text("utf-8")[:2500].split()),
        "reproduction": (ROOT / "docs/results/reproduction.md").read_text("utf-8")[:600],
        "report": tomllib.loads((ROOT / lead).read_text("utf-8"))["report"]["lead"],
        "demo": templates.read_text("utf-8")[:1500],
        "statement": statement(airpool.guarantee(airpool.Network.uniform(num_devices=2))).footer[0],
    }
    for name, text in places.items():
        assert f"arXiv {number[1]}" in text, name
        assert name == "statement" or title[1] in text, name


def test_results_have_the_papers_own_numbers():
    text = (ROOT / "docs/results/reproduction.md").read_text("utf-8")
    for name in figures.IDS:
        told = re.search(r"\(the paper's ((?:Fig\.|Table) \d+)\)$", figures.result(name).title)
        assert f"| {name} | {told[1] if told else 'no figure'}: " in text


def test_ports_and_extras_are_the_same_everywhere():
    texts = {path.name: path.read_text("utf-8") for path in (ROOT / "docs").glob("*/*.md")}
    deployed = tomllib.loads((ROOT / "deploy/air.toml").read_text("utf-8"))["listen"].rpartition(":")[2]
    for name, text in texts.items():
        assert {*re.findall(r"--air 127\.0\.0\.1:(\d+)", text)} <= {deployed}, name
        assert {*re.findall(r"airpool air .*--listen 127\.0\.0\.1:(\d+)", text)} <= {deployed}, name
    for path in ROOT.glob("packages/*/pyproject.toml"):
        listed = re.search(rf"^\| `{path.parent.name}` \|.*\|(.*)\|$", texts["installs.md"], re.MULTILINE)
        extras = tomllib.loads(path.read_text("utf-8"))["project"].get("optional-dependencies", {})
        assert listed
        assert set(extras) <= set(re.findall(r"`(\w+)`", listed[1]))
