"""airpool beside other ways: a stored row can be measured again, and the ways keep what they claim."""

import pytest
from studies.comparison import NAME, WAYS, measured
from studies.tables import RESULTS, rows

from airpool import guarantee


@pytest.mark.check
@pytest.mark.parametrize("way", ["airpool", "local", "central"])
def test_a_row_is_measured_again(way):
    (stored,) = rows(RESULTS / f"{NAME}.json", way=way, epsilon=2.0)
    found = measured(way, 2.0)
    # Another machine draws other noise: five standard errors of ten trials each.
    slack = 5 * (2 * stored["accuracy_std"] ** 2 / stored["trials"]) ** 0.5
    assert found["accuracy"] == pytest.approx(stored["accuracy"], abs=slack)
    assert found["epsilon_device"] == pytest.approx(stored["epsilon_device"], rel=1e-9)


def test_a_trusted_server_adds_as_much_noise_as_all_devices_together():
    for epsilon in (1.0, 4.0):
        central, ours = WAYS["central"].network(epsilon), WAYS["airpool"].network(epsilon)
        assert guarantee(central, credit_channel_noise=True).worst == pytest.approx(guarantee(ours).worst, rel=1e-9)
        assert not any(central.devices.column("noise_std"))


def test_what_has_no_noise_has_no_epsilon():
    for way in WAYS.values():
        worst = guarantee(way.network(2.0), credit_channel_noise=way.server_noise).worst
        assert (worst < float("inf")) == way.protected
