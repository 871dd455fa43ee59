"""Edges of the account: what is said where nothing better is known, and bad input by name."""

import io
from dataclasses import dataclass, replace

import numpy as np
import pytest
from rich.console import Console

from airpool import Adversary, Claim, Network, Ranking, Threshold, calibrate, guarantee, odds
from airpool.account import errors, plain_words, statement, theorem1
from airpool.account.at_least import at_least
from airpool.account.calibration import _require_feasible_scores
from airpool.account.eavesdropper import why_local
from airpool.account.guarantee import answered
from airpool.account.odds import in_words, table
from airpool.account.plain_words import period
from airpool.account.reconstruction import reconstruction
from airpool.account.report import table as report_table
from airpool.account.views import Question
from airpool.network import Channel, Devices, Slots
from airpool.privacy import sampled, unaligned
from airpool.privacy.draws import Exceeded, StillStream, over_any_draws
from airpool_lab.waveform import reception as waveform
from airpool_lab.waveform.frame import Frame
from airpool_lab.waveform.uplink import Impairments, uplink

STILL = Channel(fading="rician", redrawn=False, outage=0.1)
ONE, TWO, THREE = (Claim(inferences=n) for n in (1, 2, 3))


def like(noise_std=0.2, **rest):
    return Network.uniform(num_devices=4, noise_std=noise_std, **rest)


def printed(what):
    Console(width=200, file=(out := io.StringIO())).print(what)
    return out.getvalue()


def test_a_lower_end_is_claimed_only_where_it_is_known():
    scores = Threshold(score_noise_std=0.5, threshold=0.5)
    many = Network(Devices(5, noise_std=(0.1, 0.2, 0.3, 0.4, 0.5)), scheme=scores)
    assert at_least(Question(many, THREE).situation, None) is None
    # Without any noise everything is seen: nothing is added to "at least 0".
    silent = like(noise_std=0.0)
    assert at_least(Question(silent, THREE).situation, None) == pytest.approx(np.zeros(4))
    never = Network(Devices(2, noise_std=0.2, participation=(0.0, 1.0)))
    found = at_least(Question(never, THREE).situation, None)
    assert found is not None
    assert found[0] == 0 < found[1]


def test_no_lower_end_is_claimed_where_other_noise_is_not_counted(monkeypatch):
    net = Network(Devices(3, noise_std=(0.1, 0.2, 0.3)), channel=Channel(csi_error_std=0.05), colluders=1)
    monkeypatch.setattr(unaligned, "_MOST_ROWS", 1)
    unaligned._unaligned.cache_clear()
    assert at_least(Question(net, TWO).situation, None) is None


def test_a_waveform_with_an_amplifier_that_clips_has_the_local_epsilon_alone():
    link = uplink((1, 4), 20, Frame(), Impairments(), np.random.default_rng(0))
    assert "not linear" in str(waveform.why_local(like(), replace(link, limit=1.0)))


def test_a_target_is_met_by_each_accounting():
    assert guarantee(calibrate(like(participation=0.9), epsilon=2.0)).worst <= 2.0
    claimed = theorem1.calibrate(Network.uniform(num_devices=12, participation=0.9), epsilon=10.0)
    assert np.max(guarantee(claimed).paper.epsilon) == pytest.approx(10.0, rel=1e-6)
    again = theorem1.calibrate(claimed, epsilon=10.0, delta=1e-7)
    assert np.max(guarantee(again, Claim(delta=1e-7)).paper.epsilon) == pytest.approx(10.0, rel=1e-6)


def test_scores_that_cannot_differ_need_next_to_no_noise():
    alike = calibrate(like(scheme=Threshold(threshold=50.0, score_bound=1e-3)), epsilon=5.0, share=0.5)
    assert isinstance(alike.scheme, Threshold)
    assert guarantee(alike).worst <= 5.0


def test_a_claim_needs_noise_to_scale_and_an_epsilon_that_it_can_reach():
    with pytest.raises(ValueError, match="noise_std is 0 everywhere"):
        theorem1.calibrate(like(noise_std=0.0), epsilon=1.0)
    with pytest.raises(ValueError, match=r"claims no ε as small as 1\.0"):
        theorem1.calibrate(like(participation=0.01), epsilon=1.0)


def test_scores_that_cost_less_than_the_target_are_no_obstacle():
    net = like(scheme=Threshold(score_noise_std=2.0, threshold=0.5, score_bound=0.5))
    assert guarantee(calibrate(net, epsilon=8.0)).worst <= 8.0
    _require_feasible_scores(net, Claim(), np.full(4, 8.0))
    _require_feasible_scores(like(), Claim(), np.full(4, 1e-9))


def test_weights_are_found_under_channel_errors(monkeypatch):
    monkeypatch.setattr(sampled, "DRAWS", 64 * sampled._CHUNK)
    for channel in (Channel(csi_error_std=0.05), Channel(antennas=2, phase_error_std=0.1)):
        found = calibrate(Network.uniform(num_devices=2, channel=channel), epsilon=3.0, adjust="weight")
        assert 1.5 < guarantee(found).worst <= 3.0


def test_an_eavesdropper_is_granted_the_local_epsilon_for_a_reason():
    heard, unknowing = Adversary(antennas=2), Claim(knows_answer=False)
    reasons = {
        "one after the other": like(adversary=heard, channel=Channel(access="orthogonal")),
        "depends on its noise": like(adversary=heard, channel=Channel(power_rule="paper")),
        "number of slots": like(adversary=heard, slots=Slots(count=3)),
        "several antennas": Network.uniform(num_devices=80, channel=Channel("rician", antennas=2), adversary=heard),
        "others in every slot": like(adversary=heard, slots=Slots(count=3, redrawn=False), dropouts=1),
        "scores|neighbours": like(adversary=heard, scheme=Threshold()),
    }
    for words, net in reasons.items():
        claim = unknowing if words == "number of slots" else Claim()
        assert why_local(net, claim) is not None
        report = guarantee(net, claim)
        assert report.epsilon_eavesdropper == pytest.approx(report.epsilon_local)
        found = odds(net, claim)
        assert found.eavesdropper == pytest.approx(found.local)
    assert "needs a receiver noise" in str(why_local(like(adversary=heard), Claim(live=True)))
    assert "one after the other" in str(why_local(reasons["one after the other"], Claim()))
    report = guarantee(like(adversary=heard))
    assert "An eavesdropper elsewhere with 2 antennas: ε = " in printed(report_table(report))
    assert any("elsewhere may learn the answer, so the server's antenna counts" in each for each in report.assumptions)
    report = guarantee(like(adversary=Adversary(antennas=1)), unknowing)
    text = printed(report_table(report))
    assert "An eavesdropper elsewhere with 1 antenna, which does not learn the answer: ε" in text
    assert any("elsewhere does not learn the answer and has Rayleigh" in each for each in report.assumptions)


def test_own_noise_alone_counts_where_errors_are_not_accounted_for():
    assert "select" in str(errors.why_local(like(scheme=Ranking(num_selected=2), channel=Channel(csi_error_std=0.1))))
    crowd = Network.uniform(num_devices=400, channel=Channel(antennas=2, phase_error_std=0.1))
    assert "several antennas" in str(errors.why_local(crowd))
    far = like(channel=Channel(fading="sionna:tdl-a", csi_error_std=0.1))
    assert "fading none, rician and rayleigh" in str(errors.why_local(far))


def test_odds_are_a_table_and_sentences():
    text = printed(table(odds(like(adversary=Adversary(antennas=2)), prior=0.1)))
    assert "from the eavesdropper's antennas" in text
    assert "the class above all, is not protected" in text
    assert "eavesdropper" not in printed(table(odds(like(), prior=0.1)))
    assert in_words([]) == []


def test_odds_over_a_channel_that_stays_are_below_those_of_own_noise():
    plain = like(channel=STILL)
    unsure, dropped = replace(plain, devices=replace(plain.devices, participation=0.9)), replace(plain, dropouts=1)
    known, coins, fewer = (odds(net, THREE) for net in (plain, unsure, dropped))
    assert coins.worst < float(np.max(coins.local))
    assert known.worst <= fewer.worst <= float(np.max(known.local)) + 1e-12
    close = reconstruction(unsure, THREE)
    assert np.all(close.device >= 0)
    assert np.all(close.device <= 1)


@dataclass
class OneAnswer:
    """A carrier that is accounted for until it is known no more."""

    exact: bool = True
    known: bool = True

    def accounted(self, network):
        if not self.known:
            raise ValueError("no other number of inferences is known")
        return network

    def assumptions(self, network, lines):
        return lines


def test_a_period_of_one_inference_that_has_no_account_is_an_error():
    carrier = OneAnswer()
    report, without = (answered(Question(like(), claim, carrier)) for claim in (ONE, TWO))
    carrier.known = False
    with pytest.raises(ValueError, match="no other number of inferences is known"):
        report.over(2)
    assert np.all(np.isinf(period(report, "a day", 2).epsilon))
    with pytest.raises(ValueError, match="no other number of inferences is known"):
        period(without, "once", 1)


def test_a_statement_names_devices_without_noise_and_cover_noise():
    mixed = Network(Devices(3, noise_std=(0.2, 0.2, 0.0), participation=0.9), cover_noise=True)
    page = statement.statement(guarantee(mixed))
    assert "(but not by" in str(page)
    assert "Cover noise: devices that are not chosen must still send noise." in str(page)
    assert repr(page).startswith("Statement(3 devices, ε of the worst: ")
    assert page._repr_html_().startswith("<iframe srcdoc=")
    with pytest.raises(TypeError, match="a statement has no int"):
        statement._lines(3)


def test_a_statement_says_where_the_paper_agrees():
    report = guarantee(Network.uniform(num_devices=12, noise_std=0.1, participation=0.9), Claim(neighbours="remove"))
    assert not report.paper.reason
    same = replace(report, epsilon=report.paper.epsilon)
    assert plain_words.paper(same).endswith(", as this page does.")


def test_a_report_shows_itself_in_one_line():
    report = guarantee(like(slots=Slots(count=3)), Claim(per_event=5))
    assert repr(report).startswith("PrivacyReport(4 devices: epsilon <= ")
    assert "of up to 3 slots" in repr(report)
    for shown in (report._repr_html_(), odds(like(), prior=0.1)._repr_html_(), report.statement()._repr_html_()):
        assert shown.startswith("<")
    assert report.event is not None
    assert report.event.epsilon == pytest.approx(guarantee(report.network, Claim(inferences=5)).as_event.epsilon)
    assert "The local ε is inf: " in printed(report_table(guarantee(like(noise_std=0.0))))


def test_a_draw_without_noise_or_without_a_feature_leaves_the_bound_as_it_is():
    for mu in (0.0, np.inf):
        law = Exceeded(np.array([0.0, 1.0]), np.array([mu, 0.0]))
        assert over_any_draws([StillStream(law, 3, 2)], 0.0, 1e-5, 7.0) == 7.0


def test_over_several_draws_only_schemes_without_scores_count_others():
    net = like(channel=STILL, dropouts=1, scheme=Threshold(score_noise_std=1.0))
    report = guarantee(net, THREE)
    assert report.epsilon == pytest.approx(report.epsilon_local)


def test_each_setting_that_a_waveform_does_not_account_for_is_named():
    net = Network.uniform(num_devices=3, noise_std=0.2, dimension=4)
    link = uplink((1, 3), 2, Frame(), Impairments(), np.random.default_rng(0))
    rarely = Network.uniform(num_devices=3, noise_std=0.2, dimension=4, participation=0.5)
    said = (
        ("errors of its own", replace(net, channel=Channel(fading="rayleigh")), ONE),
        ("neighbours = remove", net, Claim(neighbours="remove")),
        ("participation below 1", rarely, ONE),
        ("colluders", replace(net, colluders=1), ONE),
        ("colluding", net, Claim(colluding=[1])),
        ("live noise", net, Claim(live=True)),
    )
    for words, network, claim in said:
        assert words in (waveform.why_local(network, link, claim) or "")
        with pytest.raises(ValueError, match=f"over all samples the local ε is all that is claimed: .*{words}"):
            waveform.waveform_epsilon(network, link, claim)


def test_an_eavesdropper_over_channels_that_stay_gets_the_local_epsilon_where_coins_are_tossed():
    coins = Network.uniform(num_devices=3, noise_std=0.2, participation=0.5, channel=STILL)
    assert "participation below 1 is not accounted for" in (why_local(coins, TWO) or "")
