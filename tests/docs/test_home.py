"""The numbers of the home page and of the first five minutes are those that airpool computes."""

import re

import airpool
from airpool.account.odds import percent
from tests.docs.sources import DOCS
from tests.test_docs_numbers import compared


def page(name):
    return (DOCS / name).read_text("utf-8")


def test_the_result_on_the_home_page_is_that_of_the_comparison():
    found = re.search(
        r"test objects is (\.\d+); without any noise it is (\.\d+), and\s.*? by itself (\.\d+)", page("index.md")
    )
    assert found
    assert list(found.groups()) == [compared("airpool")[1], compared("split")[0], compared("local")[1]]


def test_the_odds_on_the_home_page_are_those_of_two():
    net = airpool.calibrate(airpool.Network.uniform(num_devices=12, dimension=40), epsilon=2.0)
    found = airpool.odds(net, prior=0.5)
    assert f"right {percent(found.worst)} of the time at most" in page("index.md")
    assert f"at most {percent(found.worst)} of its guesses" in page("howto/statement.md")


def test_the_first_network_has_the_numbers_that_are_printed():
    report = airpool.guarantee(airpool.Network.uniform(num_devices=12, noise_std=0.05, participation=0.9))
    shown = [float(number) for number in re.findall(r"^\| \*\*\w+\*\* \| ([\d.]+) \|", page("start.md"), re.MULTILINE)]
    for printed, exact in zip(shown, (report.worst, report.epsilon_local[0], report.epsilon_object), strict=True):
        assert 0 <= printed - exact < 1.001e-3
    assert f"answered right\n{percent(report.odds[0].worst)} of the time at most" in page("start.md")
