"""Leaks that somebody writes into a ledger or tells a fleet view: never charged, and no harm to other accounts."""

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from airpool import Channel, Claim, Network, guarantee
from airpool.privacy import stored
from airpool_runtime import telling
from airpool_runtime.charge import require_consistent
from airpool_runtime.ledger.backup import Content, content, faults
from airpool_runtime.ledger.fleet import Fleet
from airpool_runtime.ledger.mechanism import mechanism, parse
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import total
from airpool_runtime.options import DeviceOptions


def with_leak(one, leak):
    """The text of a mechanism with another leak."""
    body = json.loads(one.text)
    return stored.canonical(body | {"leak": leak})


def test_a_leak_that_no_row_names_is_no_part_of_a_ledger(device, network, one):
    with device.open() as ledger:
        ledger.charge("a", one)
    quiet = mechanism(replace(network, devices=replace(network.devices, noise_std=100.0)), device=3)
    forged = with_leak(one, json.loads(quiet.text)["leak"])
    with closing(sqlite3.connect(device.path)) as base, base:
        values = hashlib.sha256(forged.encode()).hexdigest(), forged
        base.execute("INSERT INTO mechanism(rowid, digest, text) VALUES (-1, ?, ?)", values)
    assert any("has no row" in wrong for wrong in faults(content(device.path)))
    with pytest.raises(SpendingError, match="has no row"):
        device.open()


@pytest.mark.parametrize(
    ("before", "after"), [('"number":1}', f'"number":{10**400}}}'), ('"among":4', f'"among":{10**400}')]
)
def test_whole_numbers_beyond_any_use_are_no_leak(one, before, after):
    assert before in one.text
    with pytest.raises(ValueError, match="not a mechanism"):
        parse(one.text.replace(before, after))


def test_a_ledger_that_cannot_be_added_up_leaves_the_accounts_of_others(device, told, monkeypatch, tmp_path):
    view = Fleet(f"sqlite:///{tmp_path}/fleet.db")
    view.take(told)

    def fails(*_: object) -> float:
        raise ValueError("at most 16777216 inferences")

    with closing(view):
        monkeypatch.setattr("airpool_runtime.ledger.fleet.total", fails)
        (account,) = view.accounts(1e-5)
    assert account.epsilon == float("inf")
    assert "at most 16777216" in (account.reason or "")


def test_a_message_holds_the_mechanisms_that_its_rows_name(told, monkeypatch):
    first = next(iter(told.texts))
    rows = (*told.rows, told.rows[-1]._replace(mechanism="other"))
    found = Content(told.origin, {**told.texts, "other": "x" * 100}, rows)
    assert telling._part(found).texts == found.texts
    monkeypatch.setattr(telling, "_BYTES", len(told.texts[first]) + 10)
    part = telling._part(found)
    assert (part.texts, len(part.rows)) == (told.texts, 6)


@pytest.mark.parametrize("number", [2, 10])
def test_over_a_channel_that_stays_a_ledger_with_coins_and_dropouts_costs_what_the_report_says(number):
    channel = Channel(fading="rayleigh", redrawn=False)
    net = Network.uniform(num_devices=6, noise_std=0.3, participation=0.9, dropouts=1, channel=channel)
    spent = total({mechanism(net, device=0, live=False): number}, 1e-5)
    assert spent == pytest.approx(guarantee(net, Claim(inferences=number)).epsilon[0], rel=1e-9)


def test_a_ledger_refuses_a_claim_that_names_who_colludes(network, tmp_path):
    where = {"network": tmp_path / "n.toml", "air": "127.0.0.1:1", "device": "1"}
    options = DeviceOptions(**where, ledger=tmp_path / "l.db", key=tmp_path / "k")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"claim\.colluding=\[1\] must be empty with --ledger"):
        require_consistent(options, network, Claim(colluding=[1]), several=False)
