"""Results of the attacks on pictures, as they are stored: attackers are strong, and none exceeds its bound."""

import json
import math

import pytest
from studies.attack_decoders import CODECS, EPSILONS
from studies.attack_figures import best, decoders

from airpool.privacy.evidence import clopper_pearson
from studies import attack_figures

RESULTS = {
    place: json.loads((attack_figures.RESULTS / f"attack-{place}.json").read_text("utf-8"))
    for place in attack_figures.PLACES
}


@pytest.mark.parametrize("place", attack_figures.PLACES)
def test_every_codec_is_attacked_at_every_epsilon(place):
    assert all(decoders(RESULTS[place], codec, epsilon) for codec in CODECS for epsilon in EPSILONS)
    assert {"version", "seed", "settings", "parameters", "objects"} <= RESULTS[place].keys()


@pytest.mark.parametrize(("codec", "gain_db"), [("map", 6.0), ("q16", 3.0)])
def test_without_noise_a_link_shows_the_object(codec, gain_db):
    without = RESULTS["link"]["without_signal"]["mean"]["psnr"]["mean"]
    for each in decoders(RESULTS["link"], codec, math.inf):
        assert each["psnr"]["mean"] > without + gain_db


@pytest.mark.parametrize("codec", CODECS)
def test_without_noise_the_attacked_render_is_found_in_its_gallery(codec):
    for place in attack_figures.PLACES:
        (rate,) = (
            each["rate"]
            for each in RESULTS[place]["identification"]
            if (each["codec"], each["gallery"], each["noise_std"]) == (codec, "attacked", 0.0)
        )
        assert rate >= 0.99


@pytest.mark.parametrize("place", attack_figures.PLACES)
def test_no_identification_exceeds_its_bound_beyond_its_error(place):
    for each in RESULTS[place]["identification"]:
        hits = round(each["rate"] * each["trials"])
        lowest = clopper_pearson(hits, each["trials"], error=0.001)[0]
        assert lowest <= attack_figures.limit(place, each["noise_std"], each["size"])


@pytest.mark.parametrize("codec", CODECS)
def test_more_noise_never_gives_a_better_picture(codec):
    for place in attack_figures.PLACES:
        found = [best(RESULTS[place], codec, epsilon, "psnr") for epsilon in EPSILONS]
        for more, less in zip(found[1:], found[:-1], strict=True):
            error = (more["standard_error"] ** 2 + less["standard_error"] ** 2) ** 0.5
            assert more["mean"] <= less["mean"] + 3 * error
