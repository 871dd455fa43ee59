"""The statement: its numbers are the library's, its words follow the settings, and the page is one plain file."""

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from typer.testing import CliRunner

from airpool import Channel, Claim, Network, Ranking, Threshold, cli, guarantee
from airpool._support.rounding import full
from airpool.account.odds import percent
from airpool.account.plain_words import PROTECTED, WEAKLY, level, limit
from airpool.account.statement import groups, statement
from airpool.network import Adversary, Slots
from airpool.network import file as network_file
from tests.html_reader import Reader

EQUAL = Network.uniform(num_devices=6, noise_std=0.2)
HETEROGENEOUS = Network.uniform(num_devices=4, noise_std=(0.1, 0.3, 0.1, 0.2), participation=0.9, colluders=1)
SECURE = Network.uniform(num_devices=6, noise_std=0.2, colluders=1, dropouts=1, channel=Channel(access="secure"))
ORTHOGONAL = Network.uniform(num_devices=6, noise_std=0.2, channel=Channel(access="orthogonal"))
SLOTS = Network.uniform(num_devices=6, noise_std=0.4, slots=Slots(4))
THREE = Claim(inferences=3)
OVERHEARD = Network.uniform(
    num_devices=6, noise_std=0.2, channel=Channel(fading="rician"), adversary=Adversary(antennas=2)
)
RANKED = Network.uniform(num_devices=6, noise_std=0.2, scheme=Ranking(num_selected=3, score_noise_std=2.0))
SILENT = Network.uniform(num_devices=3, noise_std=0.0)
NETWORKS = {
    "equal": EQUAL,
    "heterogeneous": HETEROGENEOUS,
    "secure": SECURE,
    "orthogonal": ORTHOGONAL,
    "slots": SLOTS,
    "overheard": OVERHEARD,
    "ranked": RANKED,
    "silent": SILENT,
}


@pytest.fixture(scope="module", params=NETWORKS, ids=str)
def stated(request):
    claim = THREE if request.param == "slots" else Claim()
    return guarantee(NETWORKS[request.param], claim).statement(per_day=20)


def test_every_number_on_the_page_is_the_librarys(stated):
    network, tables = stated.report.network, Reader(stated.html).tables
    blocks = [table for table in tables if table[0][1] == "inferences"]
    found = groups(stated.report, stated.periods)
    assert len(blocks) == len(found)
    counts = [1, *([network_inferences] if (network_inferences := _own(stated)) > 1 else []), 20, 7320]
    for count in counts:
        report = guarantee(network, Claim(inferences=count))
        even, rare = report.odds
        for block, group in zip(blocks, found, strict=True):
            row = next(row for row in block if row[1] == f"{count:,}")
            for k in group:
                assert row[2:] == [
                    limit(report.epsilon[k]),
                    percent(even.device[k]),
                    percent(rare.device[k]),
                    limit(report.epsilon_local[k]),
                    percent(even.local[k]),
                ]
        assert f"{limit(report.epsilon_object)} over" in str(stated)
        assert f"{percent(even.worst)}: of yes-or-no guesses" in str(stated)


def _own(stated):
    return next((each.inferences for each in stated.periods if each.name == "the file's own number"), 1)


def test_the_servers_row_is_the_bound_of_what_it_receives(stated):
    report = stated.report
    rows = {row[0]: row[-2:] for table in Reader(stated.html).tables for row in table}
    assert rows["the server"] == [limit(report.worst), percent(report.odds[0].worst)]
    if report.epsilon_eavesdropper is not None:
        heard = report.odds[0].eavesdropper
        expected = [limit(report.epsilon_eavesdropper.max()), percent(heard.max())]
        assert rows["somebody elsewhere with 2 antennas"] == expected


def test_text_and_page_say_the_same(stated):
    page = " ".join("".join(Reader(stated.html).texts).split())
    for line in str(stated).splitlines():
        if line.startswith("- ") and "; ε" not in line and "of yes-or-no" not in line and ": inferences" not in line:
            assert " ".join(line.removeprefix("- ").split()) in page
    for assumption in stated.report.assumptions:
        assert assumption in page


def test_the_page_runs_and_fetches_nothing(stated):
    page = Reader(stated.html)
    assert not {"script", "iframe", "link", "img", "form"} & {tag for tag, _ in page.tags}
    assert all(address.startswith("#") for address in page.attributes("src", "href"))
    assert "prefers-color-scheme: dark" in stated.html
    assert "@media print" in stated.html


def test_all_devices_have_their_block_and_the_worst_comes_first():
    stated = guarantee(HETEROGENEOUS).statement()
    assert groups(stated.report, stated.periods) == [[0, 2], [3], [1]]
    for caption in ("Devices 0, 2: weight 0.25", "Device 3: ", "Device 1: ", "takes part 90 % of the time"):
        assert caption in str(stated)


def test_protection_lasts_as_long_as_it_says():
    stated = guarantee(EQUAL).statement(per_day=1000)
    for most, odds in zip(stated.lasting, (PROTECTED, WEAKLY), strict=True):
        assert guarantee(EQUAL, Claim(inferences=most)).odds[0].worst <= odds
        assert guarantee(EQUAL, Claim(inferences=most + 1)).odds[0].worst > odds
    first, last = (f"{each:,} inferences" for each in stated.lasting)
    assert f"at most {first}, and weakly protected up to {last}." in str(stated)


@pytest.mark.parametrize(
    ("network", "says", "does_not_say"),
    [
        (EQUAL, ["over radio at the same moment", "no sum of fewer than 6 of the 6"], ["no radio", "secure sum"]),
        (SECURE, ["There is no radio", "the sum of 5 devices or more", "must not issue"], ["over radio", "Clocks"]),
        (ORTHOGONAL, ["the server receives every device by itself"], ["add up in the air", "Clocks"]),
        (SLOTS, ["up to 4 times, each time with fresh noise", "ε counts all slots"], ["numbers, once"]),
        (RANKED, ["noisy score", "the ranking server", "all scores change with it"], ["drawn by lot"]),
        (HETEROGENEOUS, ["drawn by lot", "at most 1 other device may", "knows its own view"], ["All 4 devices alike"]),
    ],
)
def test_the_words_change_with_the_setting(network, says, does_not_say):
    text = str(guarantee(network).statement())
    for words in says:
        assert words in text
    for words in does_not_say:
        assert words not in text


@pytest.mark.parametrize(
    ("network", "neighbours", "reason"),
    [
        (SILENT, "zero-out", "no device adds noise"),
        (Network.uniform(num_devices=3, scheme=Threshold(score_noise_std=0.0)), "zero-out", "scores without noise"),
        (Network.uniform(num_devices=3, channel=Channel(access="orthogonal")), "remove", "removal of a whole"),
        (Network.uniform(num_devices=3, channel=Channel(access="secure")), "remove", "removal of a whole"),
    ],
)
def test_an_infinite_epsilon_is_called_unprotected_with_its_reason(network, neighbours, reason):
    report = guarantee(network, Claim(neighbours=neighbours))
    assert np.isinf(report.worst)
    line = next(line for line in str(report.statement()).splitlines() if "has no limit: not protected" in line)
    assert line.startswith("Over one inference")
    assert reason in line


def test_the_first_lines_say_what_a_receiver_near_a_device_gets():
    stated = guarantee(EQUAL).statement()
    short = str(stated).partition("## What leaves")[0]
    assert f"signal by itself is right up to {percent(guarantee(EQUAL).odds[0].local.max())}" in short


def test_what_only_a_longer_period_assumes_is_on_the_page():
    fixed = Network.uniform(num_devices=6, noise_std=0.3, channel=Channel(fading="rayleigh", redrawn=False))
    assert "One draw of the channel for all" in str(guarantee(fixed).statement(per_day=10))


def test_a_channel_that_stays_as_it_is_has_its_own_epsilon_on_the_page():
    fading = Network.uniform(num_devices=6, noise_std=0.3, channel=Channel(fading="rayleigh", outage=0.2))
    day = guarantee(fading, Claim(inferences=10))
    assert day.epsilon_if_static is not None
    assert day.epsilon_if_static.max() > day.worst
    text = str(guarantee(fading).statement(per_day=10))
    assert f"{limit(day.epsilon_if_static.max())} over one day" in text


def test_a_server_that_chooses_its_moments_is_on_the_page():
    fading = Network.uniform(num_devices=6, noise_std=0.3, channel=Channel(fading="rayleigh", outage=0.05))
    day, page = guarantee(fading, Claim(inferences=10)), guarantee(fading).statement(per_day=10)
    assert day.epsilon_if_selected is not None
    chosen = limit(day.epsilon_if_selected.max())
    assert f"until {day.outages_if_selected} other devices are too weak to be heard" in str(page)
    assert f"{chosen} over one day" in str(page)
    assert page.to_json()["periods"][1]["epsilon_if_selected"] == day.epsilon_if_selected.max()
    assert "Moments: ask by a clock" in str(page)
    steady = str(guarantee(Network.uniform(num_devices=6, noise_std=0.3)).statement(per_day=10))
    assert "moments" not in steady.lower()


@pytest.mark.parametrize(
    ("changes", "neighbours", "safe"),
    [
        ({}, "zero-out", True),
        ({"slots": Slots(4)}, "zero-out", False),
        ({"scheme": Threshold()}, "zero-out", False),
        ({}, "remove", False),
    ],
)
def test_outsiders_of_a_secure_sum_learn_nothing_only_where_nothing_shows_outside(changes, neighbours, safe):
    network = Network.uniform(num_devices=6, noise_std=0.3, channel=Channel(access="secure"), **changes)
    stated = guarantee(network, Claim(neighbours=neighbours)).statement()
    rows = {row[0]: row[-2:] for table in Reader(stated.html).tables for row in table}
    told = rows["another device that is told the answer"]
    assert rows["somebody on the network"] == (["0", "50 %"] if safe else rows["the server"])
    assert rows["another device, by itself"] == (["0", "50 %"] if safe else told)


def test_an_epsilon_above_10_is_never_called_protected():
    network = Network.uniform(num_devices=6, noise_std=0.3, participation=0.9)
    once = guarantee(network, Claim(neighbours="remove"))
    assert once.worst > 10
    assert once.odds[0].worst < PROTECTED
    stated = once.statement()
    assert stated.lasting == (0, 0)
    assert f"ε is {limit(once.worst)}: not called protected" in str(stated)


def test_a_large_delta_is_called_large():
    for delta, large in ((1e-5, False), (1.23456789e-4, False), (0.3, True)):
        text = str(guarantee(EQUAL, Claim(delta=delta)).statement())
        assert f"δ = {full(delta)}: ε may fail" in text
        assert ("go by the odds" in text) == large


def test_the_papers_number_of_one_slot_is_not_compared_with_all_slots():
    text = str(guarantee(SLOTS, THREE).statement())
    assert "For one slot the paper" in text
    assert "too little" not in text


def test_more_inferences_than_can_be_composed_are_not_called_protected():
    text = str(guarantee(HETEROGENEOUS).statement(per_day=60_000))
    assert "Over one year ε has no limit: not protected, because it is not accounted for" in text


CLAIMED = Network.uniform(num_devices=12, noise_std=0.05, participation=0.9)


def test_the_papers_formula_is_compared_by_its_own_relation_alone():
    report, removed = guarantee(CLAIMED), guarantee(CLAIMED, Claim(neighbours="remove"))
    claimed, ours = limit(float(report.paper.epsilon.max())), limit(removed.worst)
    assert f"says ε = {claimed}. That is about another question, whether a device is there at all" in str(
        report.statement()
    )
    assert "too little" not in str(report.statement())
    assert "than" not in report.statement().footer[0]
    assert report.paper.epsilon.max() < removed.worst
    assert f"says ε = {claimed}, which is too little; this page goes by" in str(removed.statement())
    assert f"{ours}." in removed.statement().footer[0]


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (CLAIMED, "the exact value, ε = 2.064"),
        # Heard in spite of outages; granted the worst selection; own noise alone, among others.
        (replace(CLAIMED, scheme=Threshold(score_noise_std=1.0), channel=Channel(fading="rayleigh")), "a proven bound"),
        (replace(CLAIMED, scheme=Ranking(num_selected=6, score_noise_std=1.0)), "a proven bound"),
        (replace(CLAIMED, scheme=Ranking(num_selected=6), channel=Channel(csi_error_std=0.1)), "a proven bound"),
        (replace(CLAIMED, slots=Slots(4), cover_noise=True), "a proven bound"),
    ],
)
def test_a_bound_is_not_called_exact(network, said):
    stated = guarantee(network).statement(per_day=1).footer[0]
    assert f"this page goes by {said}" in stated
    assert ("exact" in stated) == (said.startswith("the exact"))


def test_live_noise_on_a_grid_is_not_called_exact():
    assert "this page goes by a proven bound" in guarantee(CLAIMED, Claim(live=True)).statement(per_day=1).footer[0]


def test_a_year_that_is_protected_lasts_a_year():
    stated = guarantee(replace(EQUAL, devices=replace(EQUAL.devices, noise_std=50.0))).statement(per_day=100)
    assert f"after one year (36,600 inferences that show the same), instead of 50 %: {'protected'}" in str(stated)
    assert "It is protected as long as it shows in at most 36,600 inferences." in str(stated)


@pytest.mark.parametrize("per_day", [1, 10, 100, 1000])
def test_the_word_of_a_period_agrees_with_how_long_protection_lasts(stated, per_day):
    again = stated.report.statement(per_day=per_day)
    for each, (_, meaning) in zip(again.periods, again.sections[0].parts[0].facts, strict=True):
        word = meaning.rpartition(": ")[2]
        assert word == level(each)
        assert (word == "protected") == (each.inferences <= again.lasting[0])
        assert (word != "not protected") == (each.inferences <= again.lasting[1])


def test_one_number_is_said_of_a_device_that_is_received_by_itself():
    half = Network.uniform(num_devices=6, noise_std=0.5, participation=0.5, channel=Channel(access="orthogonal"))
    stated, report = guarantee(half).statement(), guarantee(half)
    assert report.odds[0].worst < report.odds[0].local.max()
    said = percent(report.odds[0].worst)
    assert f"- {said}: of yes-or-no guesses" in str(stated)
    rows = {row[0]: row[-2:] for table in Reader(stated.html).tables for row in table}
    assert rows["the server"] == [limit(report.worst), said]
    alone = percent(report.odds[0].local.max())
    assert f"Counting only inferences in which the device sends, up to {alone} are right" in str(stated)
    assert "“Own signal”: if only inferences in which the device sends are counted." in str(stated)
    assert "if they receive that device alone" not in str(stated)
    assert "the noise of all devices hides" not in str(stated)


def test_another_device_in_a_secure_sum_is_one_colluder_more():
    network = Network.uniform(num_devices=6, noise_std=1.0, channel=Channel(access="secure"), slots=Slots(8))
    rows = {row[0]: row[-2:] for table in Reader(guarantee(network).statement().html).tables for row in table}
    more = guarantee(replace(network, colluders=1))
    assert rows["another device, by itself"] == [limit(more.worst), percent(more.odds[0].worst)]
    assert more.worst > guarantee(network).worst
    # Two devices: none is left besides the two.
    two = Network.uniform(num_devices=2, noise_std=5.0, channel=Channel(access="secure"), slots=Slots(64))
    rows = {row[0]: row[-2:] for table in Reader(guarantee(two).statement().html).tables for row in table}
    assert rows["another device, by itself"] == [
        limit(guarantee(two).epsilon_local.max()),
        percent(guarantee(two).odds[0].local.max()),
    ]


@pytest.mark.parametrize("per_day", [12, 12.0, np.float64(12), np.int64(12)])
def test_a_rate_is_any_kind_of_number(per_day):
    stated = guarantee(EQUAL).statement(per_day=per_day)
    assert stated.rate == "At 12 inferences a day, every day of the year."
    assert [each.inferences for each in stated.periods] == [1, 12, 12 * 366]


def test_options_of_the_report_hold_for_every_period():
    report = guarantee(EQUAL, Claim(live=True, delta=1e-6))
    stated = report.statement(per_day=5)
    again = guarantee(EQUAL, Claim(live=True, delta=1e-6, inferences=5))
    np.testing.assert_array_equal(stated.periods[1].epsilon, again.epsilon)
    assert "noise as running devices draw it" in str(stated)


@pytest.mark.parametrize("per_day", [0, -1, float("nan"), 1e12])
def test_a_rate_out_of_range_is_refused(per_day):
    with pytest.raises(ValueError, match=r"per_day=.* must be > 0"):
        statement(guarantee(EQUAL), per_day=per_day)


# The command


def run(*arguments):
    return CliRunner().invoke(cli.app, ["report", *map(str, arguments)], catch_exceptions=True)


@pytest.fixture
def file(tmp_path):
    network_file.write(EQUAL, tmp_path / "net.toml")
    return tmp_path / "net.toml"


def test_the_command_writes_the_page_of_the_file(file):
    out = file.parent / "new" / "statement.html"
    done = run(file, "--every", "10s", "--hours", 8, "--out", out)
    assert done.exit_code == 0, done.output
    page = "".join(Reader(out.read_text("utf-8")).texts)
    assert sha256(file.read_bytes()).hexdigest() in page
    assert "Network file: net.toml." in page
    assert "One inference every 10s, 8 hours a day." in page
    assert "2,880" in page


def test_the_command_prints_the_text(file):
    digest = sha256(file.read_bytes()).hexdigest()
    expected = guarantee(EQUAL).statement(
        per_day=7, rate="At 7 inferences a day, every day of the year.", source="net.toml", digest=digest
    )
    assert run(file, "--per-day", 7).stdout == str(expected)
    data = json.loads(run(file, "--per-day", 7, "--json").stdout)
    assert data["text"] == str(expected)
    assert data["periods"][0]["epsilon"] == list(expected.report.epsilon)
    assert data["sha256"] == digest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--every", "10"], "--every '10' must be a time > 0"),
        (["--every", "0s"], "must be a time > 0"),
        (["--every", "10s", "--per-day", "5"], "leave one of them out"),
        (["--hours", "8"], "--hours 8 needs --every"),
        (["--every", "10s", "--hours", "25"], "--hours 25 must be > 0 and at most 24"),
        (["--every", "10s", "--hours", "nan"], "--hours nan must be"),
        (["--per-day", "-1"], "--per-day -1 must be > 0"),
        (["--per-day", "nan"], "--per-day nan must be > 0"),
        (["--per-day", "inf"], "--per-day inf must be > 0 and at most"),
        (["--every", "0.0000001s"], "inferences a day, at most"),
        (["--out", "x.pdf"], "must end in .html, .md or .txt"),
    ],
)
def test_bad_input_is_one_clear_error(file, arguments, message):
    done = run(file, *arguments)
    assert isinstance(done.exception, ValueError)
    assert message in str(done.exception)


def test_a_file_that_is_none_is_named(tmp_path):
    done = run(tmp_path / "nothing.toml")
    assert "cannot read the network file" in str(done.exception)


def test_devices_that_are_known_to_collude_are_not_called_protected():
    with pytest.raises(ValueError, match="colluding=3, 5: a statement is about devices that may be honest"):
        guarantee(EQUAL, Claim(colluding=(3, 5))).statement()
