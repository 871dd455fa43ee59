"""Access answers by its class: nothing else in the package asks which access it is."""

import re
from dataclasses import replace
from typing import Any, get_args

import pytest

import airpool
from airpool.network import ACCESSES, AccessName, Channel, Network, NetworkError
from airpool_runtime.medium import medium_of
from tests.sources import MODULES


def network(access: Any, **rest: Any) -> Network:
    return Network.uniform(num_devices=4, noise_std=0.3, dimension=4, channel=Channel(access=access), **rest)


def test_every_access_has_a_class():
    assert tuple(ACCESSES) == get_args(AccessName)


def test_an_unknown_access_is_an_error_that_lists_the_known_ones():
    with pytest.raises(NetworkError, match=r"channel\.access='shouted' must be one of superposed, orthogonal, secure"):
        network("shouted")


def test_no_module_compares_access():
    compared = re.compile(r"\.access\s*(==|!=|in\b|not in\b)")
    found = [file for file in MODULES if compared.search(file.read_text("utf-8"))]
    assert not found


@pytest.mark.parametrize("access", ACCESSES)
def test_epsilon_follows_what_the_server_observes(access):
    rules, report = ACCESSES[access], airpool.guarantee(network(access))
    alone = report.epsilon == pytest.approx(report.epsilon_local, rel=1e-9)
    assert alone == rules.separate
    assert report.network.cover_noise == rules.cover_noise
    assert (rules.assumption in report.assumptions) == bool(rules.assumption)


@pytest.mark.parametrize("access", ACCESSES)
def test_a_network_without_radio_takes_no_setting_of_a_radio(access):
    noisy = replace(Channel(access="superposed"), noise_std=0.1)
    if ACCESSES[access].radio:
        assert replace(noisy, access=access).noise_std == 0.1
    else:
        with pytest.raises(NetworkError, match=f"channel.noise_std=0.1 must be 0.0: access = {access} has no radio"):
            replace(noisy, access=access)


@pytest.mark.parametrize("access", ACCESSES)
def test_an_access_without_a_medium_does_not_run(access):
    if ACCESSES[access].medium is None:
        with pytest.raises(NetworkError, match=f"channel.access='{access}' must be superposed or secure"):
            medium_of(network(access))
    else:
        assert medium_of(network(access)) == ACCESSES[access].medium
