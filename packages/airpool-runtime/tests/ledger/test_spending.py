"""The ledger's total: what `airpool epsilon --inferences T` says, to the safe side, and right for mixtures."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from airpool import Channel, Claim, Network, NetworkError, Ranking, Threshold, guarantee, write_network
from airpool.cli import app
from airpool.network import Neighbours
from airpool.privacy import compose, gaussian
from airpool_runtime.ledger.mechanism import mechanism, parse
from airpool_runtime.ledger.spending import total

CSI = Channel(csi_error_std=0.1)
NETWORKS = {
    "certain": {},
    "coin": {"participation": 0.9},
    "replaced": {"participation": 0.9},
    "cover": {"participation": 0.9, "cover_noise": True},
    "threshold": {"scheme": Threshold(score_noise_std=1.0)},
    "ranking": {"scheme": Ranking(score_noise_std=2.0, num_selected=8)},
    "gains": {"channel": CSI},
    "still": {"channel": Channel(csi_error_std=0.1, redrawn=False)},
    "outage": {"participation": 0.8, "channel": Channel(fading="rayleigh", noise_std=0.1)},
    "orthogonal": {"channel": Channel(access="orthogonal")},
    "crashes": {"participation": 0.9, "dropouts": 2, "colluders": 1},
}


@pytest.fixture(scope="module", params=NETWORKS, ids=str)
def network(request):
    return Network.uniform(num_devices=12, noise_std=0.1, **NETWORKS[request.param])


@pytest.fixture
def relation(request):
    """The relation of neighbours that the network is asked about."""
    return Neighbours.REPLACE if request.node.callspec.params["network"] == "replaced" else Neighbours.ZERO_OUT


@pytest.mark.parametrize("inferences", [1, 7, 50])
def test_the_total_is_what_airpool_epsilon_says(network, relation, inferences, tmp_path):
    """Within 1 %, and not below it."""
    for live in (False, True):
        spent = total({mechanism(network, device=3, live=live): inferences}, 1e-5, relation)
        claim = Claim(neighbours=relation, inferences=inferences, live=live)
        report = guarantee(network, claim)
        assert spent == pytest.approx(report.epsilon[3], rel=0.01)
        assert spent >= report.epsilon[3] * (1 - 1e-12)
    if inferences == 7:
        write_network(network, tmp_path / "net.toml", claim)
        options = ["--network", str(tmp_path / "net.toml"), "--live", "--inferences", "7", "--json"]
        said = CliRunner().invoke(app, ["epsilon", *options])
        said = json.loads(said.stdout)["epsilon"][3]
        assert spent == pytest.approx(float(said), rel=0.01) or (np.isinf(spent) and said == "inf")


def test_the_total_is_not_the_local_one(network, relation):
    if network.channel.access == "orthogonal":
        pytest.skip("alone, the local ε is all there is")
    report = guarantee(network, Claim(neighbours=relation, inferences=20))
    assert total({mechanism(network, device=3, live=False): 20}, 1e-5, relation) < 0.9 * report.epsilon_local[3]


def test_a_mixture_of_equal_costs_is_the_same_as_one_mechanism(network, relation):
    """Two names for one mechanism (the target is not part of it; another device is)."""
    one, same = (mechanism(network, device=k, live=False) for k in (3, 4))
    together, mixed = total({one: 20}, 1e-5, relation), total({one: 12, same: 8}, 1e-5, relation)
    assert mixed >= together * (1 - 1e-4)  # both are above the truth, on grids of their own
    assert mixed <= together * (1.6 if not network.channel.redrawn else 1.01)


def test_a_mixture_lies_between_its_parts(network, relation):
    cheap, dear = mechanism(network, device=3, live=False), mechanism(network, device=3, quorum=8, live=False)
    low, mixed, high = (total(c, 1e-5, relation) for c in ({cheap: 10}, {cheap: 5, dear: 5}, {dear: 10}))
    assert low * (1 - 1e-4) <= mixed
    assert mixed <= high * (1.6 if not network.channel.redrawn else 1.001)


def test_gaussians_add_up_as_squares():
    certain = Network.uniform(num_devices=12, noise_std=0.1)
    ones = [mechanism(certain, device=3, quorum=q, live=False) for q in (12, 9, 4)]
    squares = [(1 / 12 / 0.1) ** 2 / q for q in (12, 9, 4)]
    counts = (5, 7, 2)
    exact = float(gaussian.epsilon(np.sqrt(np.dot(counts, squares)), 1e-5))
    assert total(dict(zip(ones, counts, strict=True)), 1e-5) == pytest.approx(exact, rel=1e-9)
    assert total({}, 1e-5) == total({ones[0]: 0}, 1e-5) == 0.0


def test_curves_and_gaussians_compose_to_the_safe_side():
    """A coin of p = 1 − 1e-9 is a Gaussian but for next to nothing."""
    certain = Network.uniform(num_devices=12, noise_std=0.1)
    nearly = Network.uniform(num_devices=12, noise_std=0.1, participation=1 - 1e-9)
    mixed = total({mechanism(certain, device=3, live=False): 10, mechanism(nearly, device=3, live=False): 10}, 1e-5)
    exact = total({mechanism(certain, device=3, live=False): 20}, 1e-5)
    assert exact * (1 - 1e-6) <= mixed <= exact * 1.01


def test_mixing_directions_keeps_both():
    """Cover noise has two directions, a coin one: the mixture is at least what each costs alone."""
    cover = Network.uniform(num_devices=12, noise_std=0.1, participation=0.5, cover_noise=True)
    coin = Network.uniform(num_devices=12, noise_std=0.1, participation=0.5)
    a, b = mechanism(cover, device=3, live=False), mechanism(coin, device=3, live=False)
    mixed = total({a: 10, b: 10}, 1e-5)
    assert mixed >= max(total({a: 10}, 1e-5), total({b: 10}, 1e-5))
    assert mixed <= total({b: 20}, 1e-5) * 1.001
    with pytest.raises(ValueError, match="inferences"):
        total({b: compose.MOST_INFERENCES + 1}, 1e-5)


def test_the_quorum_is_the_noise_floor():
    network = Network.uniform(num_devices=12, noise_std=0.1, participation=0.9)
    by_quorum = [total({mechanism(network, device=0, quorum=q): 5}, 1e-5) for q in (12, 10, 8, 4, 1)]
    assert by_quorum == sorted(by_quorum)
    from dataclasses import replace

    missing = replace(network, dropouts=4)
    assert by_quorum[2] == pytest.approx(float(guarantee(missing, Claim(inferences=5, live=True)).epsilon[0]), rel=1e-9)


def test_a_mechanism_reads_back_and_does_not_depend_on_a_target(network):
    from dataclasses import replace

    one = mechanism(network, device=3, quorum=10)
    assert parse(one.text) == one
    other = replace(network, devices=replace(network.devices, epsilon=2.0))
    assert mechanism(other, device=3, quorum=10).digest == one.digest
    assert mechanism(network, device=3, quorum=9).digest != one.digest
    assert mechanism(network, device=2, quorum=10).digest != one.digest


@pytest.mark.parametrize(("given", "said"), [({"device": 12}, "device=12"), ({"device": 0, "quorum": 0}, "quorum=0")])
def test_a_device_or_quorum_that_is_not_there_is_an_error(given, said):
    with pytest.raises(NetworkError, match=said):
        mechanism(Network.uniform(num_devices=12), **given)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"version": 1}', "null", '{"version":2}', "\ud800", "1" * 5000, "[" * 10**5],
    ids=range(9),
)
def test_what_is_no_mechanism_is_an_error(text):
    with pytest.raises(NetworkError):
        parse(text)


def test_a_mechanism_that_is_not_canonical_is_an_error():
    text = mechanism(Network.uniform(num_devices=3), device=1).text
    for changed in (text + " ", text.replace('"device":1', '"device":1.0'), text.replace('"device":1', '"device":-7')):
        with pytest.raises(NetworkError):
            parse(changed)
