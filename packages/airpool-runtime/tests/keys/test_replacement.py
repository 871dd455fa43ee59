"""A revoked device's replacement: a new identity, a new ledger, and the old one's spending still in the fleet view."""

import pytest

from airpool import Network
from airpool_runtime.keys import authority
from airpool_runtime.ledger.backup import content
from airpool_runtime.ledger.fleet import Fleet
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism
from airpool_runtime.ledger.refused import SpendingError


def test_both_accounts_of_a_replaced_device_are_in_the_fleet_view(tmp_path):
    keys, one = tmp_path / "keys", mechanism(Network.uniform(num_devices=4, noise_std=0.5), device=3)
    key = keys / "device-3" / "identity.key"
    authority.create(keys)
    authority.add(keys, "device-3")
    view = Fleet(f"sqlite:///{tmp_path / 'fleet.db'}")

    def spend(path, head, times):
        with Ledger(path, key, device="device-3", head=head) as ledger:
            for number in range(times):
                ledger.charge(f"{path.name} {number}", one)
        view.take(content(path))

    spend(tmp_path / "old.db", tmp_path / "old.head", 5)
    authority.revoke(keys, "device-3")
    authority.reissue(keys, "device-3")
    with pytest.raises(SpendingError):
        spend(tmp_path / "old.db", tmp_path / "old.head", 1)  # the old ledger is of the old identity
    spend(tmp_path / "new.db", tmp_path / "new.head", 2)
    accounts = view.accounts(1e-5)
    view.close()
    assert [each.device for each in accounts] == ["device-3"] * 2
    assert sorted(each.inferences for each in accounts) == [2, 5]
    assert len({each.key for each in accounts}) == 2


def test_a_replacement_begins_a_ledger_where_the_old_head_lies_beside_the_key(tmp_path):
    keys, one = tmp_path / "keys", mechanism(Network.uniform(num_devices=4, noise_std=0.5), device=3)
    folder = keys / "device-3"
    authority.create(keys)
    authority.add(keys, "device-3")

    def spend(path):
        key, head = folder / "identity.key", folder / "identity.head"
        with Ledger(path, key, device="device-3", head=head) as ledger:
            ledger.charge("one", one)

    spend(tmp_path / "old.db")
    authority.revoke(keys, "device-3")
    authority.reissue(keys, "device-3")
    spend(tmp_path / "new.db")
    assert len(list(folder.glob("identity*.head"))) == 2
