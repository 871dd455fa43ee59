"""The same number of the same network, wherever it is printed: command, statement, page, report and inference."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from airpool import cli
from airpool.account.guarantee import guarantee
from airpool.account.odds import odds
from airpool.account.plain_words import level, verdict
from airpool.account.report import PrivacyReport
from airpool.network import Claim, Network, Slots
from airpool.network import file as network_file
from airpool.protocol.inference import Simulation, infer_features
from airpool.schemes.scores import Uncertainty
from airpool_web.leakage import leakage
from tests.html_reader import Reader

from .any_network import any_network

pytestmark = pytest.mark.usefixtures("few_draws", "few_cells")
ALL = range(30)
FAST = (2, 3, 5, 12, 18)
WORDS = {"inf": math.inf, "no limit": math.inf}
# ε or per cent, as printed.
N = r"(inf|no limit|\d[\d,]*(?:\.\d+)?(?: %)?)"


def asked(seed: int) -> tuple[Network, Claim]:
    """A random network and its claim, one in four with several slots."""
    network, claim = any_network(seed)
    claim = replace(claim, colluding=(), credit_channel_noise=False)  # which a statement refuses, and the page has not
    several = seed % 4 == 3 and claim.delta >= 1e-9  # the least that slots are composed with, and some
    return (replace(network, slots=Slots(3)) if several else network), claim


def says(printed: str, value: float) -> bool:
    """Whether a printed number is this one, rounded up to its digits and no further."""
    text = printed.strip().replace(",", "")
    if text in WORDS or math.isinf(value):
        return WORDS.get(text) == value
    digits = text.removesuffix(" %")
    exact, place = value * (100 if text.endswith("%") else 1), 10.0 ** -len(digits.partition(".")[2])
    hair = 1e-9 + 1e-11 * abs(exact)
    # Per cent lose trailing zeros: 50 % is 50.0 %.
    least = place if not text.endswith("%") or "." in digits else 0.1
    return -hair <= float(digits) - exact < max(place, least) + hair


def run(*arguments: object) -> str:
    done = CliRunner().invoke(cli.app, list(map(str, arguments)), catch_exceptions=False, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


def largest(values: list[float | str]) -> float:
    return max(map(float, values))


class Numbers:
    """All numbers of a network that are said in several places."""

    def __init__(self, report: PrivacyReport) -> None:
        even, rare = report.odds
        self.epsilon, self.local, self.object = report.worst, float(report.epsilon_local.max()), report.epsilon_object
        self.even, self.rare, self.object_odds = even.worst, rare.worst, even.object
        self.alone = float(even.local.max())
        self.verdict = verdict(self.epsilon, self.even)

    def agree(self, **printed: str) -> None:
        for name, text in printed.items():
            assert says(text, getattr(self, name)), f"{name} is said to be {text}, is {vars(self)}"


def command_says(report: PrivacyReport, true: Numbers, file: Path) -> None:
    """`airpool epsilon`, as data and as a table; the report's own words."""
    told = json.loads(run("epsilon", "--network", file, "--json"))
    for data in (told, json.loads(json.dumps(report.to_json()))):
        assert list(map(float, data["epsilon"])) == list(report.epsilon)
        assert (largest(data["epsilon_local"]), float(data["epsilon_object"])) == (true.local, true.object)
        assert [max(each["device"]) for each in data["odds"]] == [true.even, true.rare]
        assert max(data["odds"][0]["local"]) == true.alone
    text = run("epsilon", "--network", file)
    rows = [line.split() for line in text.splitlines() if re.match(r"(all|\d+)( |,)", line)]
    true.agree(epsilon=max((row[-3] for row in rows), key=number), local=max((row[-2] for row in rows), key=number))
    lines = " ".join(text.split())
    true.agree(epsilon=found(f"Worst device: ε = {N}", lines), object=found(rf"at once\): ε = {N}", lines))
    true.agree(even=found(f"right at most {N}", lines), rare=found(f"one of 40: {N}", lines))
    true.agree(alone=found(f"all others colluding: {N}", lines), epsilon=found(f"<= {N},", repr(report)))
    assert odds(report.network, report.claim).worst == true.even


def statement_says(report: PrivacyReport, true: Numbers, file: Path) -> None:
    """`airpool report`, as data, text and page, in which the only periods are one inference and the network's own."""
    own = report.claim.inferences
    stated = json.loads(run("report", file, "--per-day", 1 / 366, "--json"))
    period = next(each for each in stated["periods"] if each["inferences"] == own)
    assert list(map(float, period["epsilon"])) == list(report.epsilon)
    assert max(period["odds"]["0.5"]) == true.even
    page = report.statement(per_day=1 / 366)
    text, each = str(page), next(one for one in page.periods if one.inferences == own)
    tables = [line[2:] for table in Reader(page.html).tables for line in table if line[0] == each.name]
    for cells in zip(*tables, strict=True):
        assert all(f" {cell}" in text for cell in cells)
    worst = [max(column, key=number) for column in zip(*tables, strict=True)]
    true.agree(epsilon=worst[0], even=worst[1], rare=worst[2], local=worst[3], alone=worst[4])
    short = next(line for line in text.splitlines() if f"at most after {each.name}" in line)
    true.agree(even=short.removeprefix("- ").partition(":")[0])
    assert level(each) == true.verdict
    assert short.endswith(f": {true.verdict}")
    assert (true.verdict == "protected") == (own <= page.lasting[0])
    true.agree(object=found(rf"{N} over {each.name} \(50 %", text))
    true.agree(object_odds=found(rf"over {each.name} \(50 % becomes {N}\)", text))
    server = next(line for table in Reader(page.html).tables for line in table if line[0] == "the server")
    if own == 1:
        true.agree(epsilon=server[-2], even=server[-1])


def page_says(network: Network, claim: Claim, true: Numbers) -> None:
    """The page of `airpool ui`."""
    part = leakage(network, claim)
    assert (float(part["epsilon"]), float(part["epsilon_local"])) == (true.epsilon, true.local)
    shown, words = part["shown"], part["odds"]["words"]
    true.agree(epsilon=shown["epsilon"], local=shown["epsilon_local"], object=shown["epsilon_object"])
    true.agree(even=words["even"]["device"], rare=words["rare"]["device"])
    true.agree(alone=words["even"]["local"], object_odds=words["even"]["object"])
    if math.isfinite(true.epsilon):
        assert part["protects"].lower().startswith(true.verdict)
        true.agree(epsilon=found(rf"\(ε = {N}, δ", part["protects"]), even=found(f"most {N}", part["protects"]))


def walked(seed: int, folder: Path) -> None:
    (network, claim), file = asked(seed), folder / "net.toml"
    report = guarantee(network, claim)
    true = Numbers(report)
    network_file.write(network, file, claim)
    command_says(report, true, file)
    statement_says(report, true, file)
    page_says(network, claim, true)
    carried = inferred(network, claim)
    assert list(carried.epsilon) == list(report.epsilon)
    assert (carried.odds[0].worst, carried.epsilon_object) == (true.even, true.object)


def number(printed: str) -> float:
    text = printed.strip().replace(",", "").removesuffix(" %")
    return WORDS[text] if text in WORDS else float(text)


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, f"no {pattern} in {text}"
    return match[1]


def inferred(network: Network, claim: Claim) -> PrivacyReport:
    """The report of an inference of one object."""
    rng, path = np.random.default_rng(4), "full" if network.channel.power_rule == "paper" else "fast"
    features = rng.standard_normal((1, network.devices.count, network.dimension)) / network.dimension**0.5
    scored = not network.scheme.independent
    scores = Uncertainty(scores=np.full((1, network.devices.count), 0.5) if scored else None, num_classes=40)
    server = rng.standard_normal((3, network.dimension))
    simulation = Simulation(path=path)
    how: dict[str, Any] = {"server": server, "rng": rng, "uncertainty": scores, "simulation": simulation}
    return infer_features(features, network, claim, **how).report


@pytest.mark.parametrize("seed", FAST)
def test_all_say_the_same_number(seed, tmp_path):
    walked(seed, tmp_path)


@pytest.mark.check
@pytest.mark.parametrize("seed", [seed for seed in ALL if seed not in FAST])
def test_all_say_the_same_number_of_many(seed, tmp_path):
    walked(seed, tmp_path)
