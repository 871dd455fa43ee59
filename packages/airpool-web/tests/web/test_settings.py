"""Settings of the page: what they become, what is greyed, and what is refused."""

import json
import math

import numpy as np
import pytest
from tests.web.asking import asked
from tests.web.random_settings import WORDS, answers_to, settings_at_random, text_for

from airpool.account.guarantee import guarantee
from airpool.evaluation.settings import KEYS
from airpool.models import stored
from airpool.network import Network
from airpool_web.answers import in_force, knobs_record
from airpool_web.asked import AskedError
from airpool_web.knobs import KNOBS
from airpool_web.settings import OWN, asked_network, read


def test_every_setting_of_a_network_has_one_control_and_stands_in_one_group():
    record = knobs_record("modelnet40")
    not_here = {"colluding", "credit_channel_noise", "live", "per_event"}  # of the claim
    assert set(record["knobs"]) == set(KEYS) - not_here | set(OWN)
    grouped = [name for group in record["groups"] for name in group["knobs"]]
    assert sorted(grouped) == sorted(record["knobs"])


def test_sliders_have_a_range_and_say_which_end_is_private_where_one_is():
    for name, knob in knobs_record("modelnet40")["knobs"].items():
        assert knob["label"], name
        assert knob["help"], name
        if knob["kind"] in ("number", "whole") and name != "dimension":
            assert knob["min"] < knob["max"], name
        if knob["private_end"] is not None:
            words = knob["low_text" if knob["private_end"] == "low" else "high_text"]
            assert "private" in words or name == "delta", name


def test_small_epsilon_is_praised_and_not_warned_of():
    knob = knobs_record("modelnet40")["knobs"]["epsilon"]
    assert (knob["private_end"], knob["low_text"], knob["high_text"]) == ("low", "more private", "more accurate")


def test_nothing_given_is_the_librarys_default_at_an_epsilon_of_two():
    found = asked_network({})
    assert found.bare == Network.uniform(num_devices=12, dimension=40)
    assert 1.99 < guarantee(found.network).worst <= 2


def test_the_defaults_given_as_texts_are_those_in_force():
    defaults = {name: text for name, text in knobs_record("modelnet40")["defaults"].items() if text}
    for way in ("epsilon", "noise"):
        assert asked_network(defaults | {"way": way}).network == asked_network({"way": way}).network


def test_texts_in_force_describe_the_same_network_again():
    rng = np.random.default_rng(5)
    for _ in range(20):
        settings = settings_at_random(rng) | {"way": "noise"}
        found = read(settings)
        again = read({name: text for name, text in in_force(found).items() if name not in found.greyed})
        assert (again.network, again.claim) == (found.network, found.claim)


def test_every_choice_is_a_network():
    for name, values in WORDS.items():
        for value in values:
            more = {"participation": "0.9"} if value == "remove" else {}
            assert read({name: value} | more).network.devices.count > 0


def test_a_greyed_control_changes_no_number():
    rng = np.random.default_rng(7)
    for _ in range(40):
        settings = settings_at_random(rng) | {"way": "noise"}
        found = read(settings)
        for name in found.greyed:
            if name not in ("model", "codec"):
                other = read(settings | {name: text_for(rng, name)})
                assert (other.network, other.claim) == (found.network, found.claim)


def test_going_to_a_secure_sum_drops_the_radio_and_says_so():
    found = read({"access": "secure", "fading": "rician", "antennas": "3", "receiver_noise_std": "0.3"})
    assert found.network.channel.fading == "none"
    assert found.network.cover_noise
    assert {note.partition(" ")[0] for note in found.notes} == {"fading", "antennas", "receiver_noise_std"}
    assert found.greyed["power_dbm"] == "a secure sum has no radio"


def test_a_codec_that_another_model_has_gives_way_to_the_models_own():
    found = read({"model": "wearables", "codec": "q16"})
    assert (found.codec, found.notes) == ("vote", ("wearables has no codec q16: vote is used.",))


def test_unlike_noise_keeps_its_proportions_where_its_size_is_searched_for():
    found = asked_network({"devices": "2", "noise_std": "0.1,0.3"})
    low, high = found.network.devices.column("noise_std")
    assert high / low == pytest.approx(3)
    assert guarantee(found.network).worst <= 2


def test_presets_are_answered_and_the_papers_claims_its_epsilon():
    presets = {each["name"]: each["settings"] for each in knobs_record("modelnet40")["presets"]}
    assert list(presets) == ["paper", "ours", "wearables", "hostile"]
    paper = asked_network(presets["paper"]).network
    assert float(max(guarantee(paper).paper.epsilon)) == pytest.approx(10, rel=1e-9)
    assert asked_network(presets["ours"]).network.channel.fading == "rician"
    assert asked_network(presets["wearables"]).network.devices.count == 5
    assert read(presets["hostile"]).network.adversary.antennas == 4


REFUSED = [
    ({"noise_std": "-1", "way": "noise"}, "noise_std"),
    ({"receiver_noise_std": "loud"}, "receiver_noise_std"),
    ({"receiver_noise_std": "-2"}, "receiver_noise_std"),
    ({"devices": "0"}, "devices"),
    ({"devices": "1e3"}, "devices"),
    ({"devices": "121"}, "devices"),
    ({"devices": "25", "scheme": "2.2"}, "devices"),
    ({"dropouts": "12"}, "dropouts"),
    ({"weight": "1,2"}, "weight"),
    ({"delta": "0"}, "delta"),
    ({"epsilon": "nan"}, "epsilon"),
    ({"epsilon": "0"}, "epsilon"),
    ({"accuracy": "1", "way": "accuracy"}, "accuracy"),
    ({"share": "1", "scheme": "2.1"}, "share"),
    ({"way": "sideways"}, "way"),
    ({"access": "telepathy"}, "access"),
    ({"scheme": "3"}, "scheme"),
    ({"fading": "fog"}, "fading"),
    ({"fading": "sionna:tdl-a"}, "fading"),
    ({"codec": "vote.safetensors"}, "codec"),
    ({"model": "/etc/passwd"}, "model"),
    ({"model": "../modelnet40"}, "model"),
    ({"cover_noise": "yes", "participation": "0.9"}, "cover_noise"),
    ({"slots": "65"}, "slots"),
    ({"inferences": "1000001"}, "inferences"),
    ({"neighbours": "remove", "scheme": "2.1"}, "neighbours"),
    ({"neighbours": "friends"}, "neighbours"),
    ({"gamma": "1e9", "fading": "rician"}, "gamma"),
    ({"sure": "2", "slots": "2"}, "sure"),
    ({"threshold": "many", "scheme": "2.1"}, "threshold"),
    ({"colours": "blue"}, None),
    ({"live": "true"}, None),
    ({"devices": ["1"]}, "devices"),
    ({"devices": None}, "devices"),
    ({"epsilon": "1" * 20_000}, "epsilon"),
]


@pytest.mark.parametrize(("settings", "field"), REFUSED, ids=[str(each)[:40] for each, _ in REFUSED])
def test_a_mistake_is_refused_with_the_setting_at_fault(settings, field):
    with pytest.raises(AskedError) as caught:
        asked_network(settings)
    assert caught.value.field == field
    assert len(str(caught.value)) < 300
    if field is not None:
        assert field in str(caught.value) or field == "neighbours"


def test_a_mistake_is_an_ordinary_reply_that_names_the_setting():
    (reply,) = asked(("POST", "/api/answer", {"json": {"noise_std": "-1", "way": "noise"}}))
    assert reply.status_code == 400
    assert reply.json() == {"error": "noise_std=-1.0 must be >= 0 and finite", "field": "noise_std"}


def test_a_model_that_the_page_was_started_with_is_the_only_file_that_is_read(tmp_path):
    file = stored.where("wearables")
    assert asked_network({}, str(file)).network.devices.count == 5
    with pytest.raises(AskedError):
        asked_network({"model": str(file)})


def hostile(rng):
    """Names and values that no control makes."""
    names = [*KNOBS, "seed", "object", "__class__", "", "devices.count", "σ"]
    values = ["", "0", "-1", "1e308", "-1e308", "nan", "inf", "1e-320", "auto", "true", "1,2,3", ",", "9" * 400, "0x10"]
    values += ["2.1", "2.2", "secure", "orthogonal", "rician", "nakagami:m=1e9", "nakagami:m=-1", "log-normal:std_db=x"]
    values += ["../x", "<b>", "\x00", "é" * 50, ":", "1:2:3", None, True, 3, 1e400, -0.0, [], {}, ["1"], "0.5", "12"]
    return {str(rng.choice(names)): values[rng.integers(len(values))] for _ in range(rng.integers(1, 6))}


def answered_or_refused(settings):
    """Statuses and the last part of answers; nothing else may come of any settings."""
    requests = [("POST", "/api/answer", {"content": json.dumps(each)}) for each in settings]
    for reply, each in zip(asked(*requests), settings, strict=True):
        assert reply.status_code in (200, 400), (each, reply.text)
        assert "Traceback" not in reply.text
        assert "airpool failed here" not in reply.text, (each, reply.text)
        for line in reply.text.splitlines():
            json.loads(line, parse_constant=pytest.fail)


def test_hostile_settings_are_answered_or_refused_with_a_sentence():
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(400):
        settings = hostile(rng)
        try:
            found = read(settings)
            assert math.isfinite(found.claim.delta)
        except AskedError:
            refused += 1
    assert 200 < refused < 400
    answered_or_refused([hostile(rng) | {"devices": ""} for _ in range(12)])


@pytest.mark.check
@pytest.mark.parametrize("seed", range(20))
def test_hundreds_of_hostile_settings_are_answered_or_refused_with_a_sentence(seed):
    rng = np.random.default_rng(seed)
    answered_or_refused([hostile(rng) for _ in range(100)])


def test_several_answers_to_the_same_settings_are_the_same():
    one, other = answers_to({"model": "wearables"}, {"model": "wearables", "tab": "plan", "seed": "3"})
    assert one == other
