"""Devices that lie: who is blamed, what the round becomes, and that no device can bring blame upon another."""

from dataclasses import replace
from typing import Any

import pytest

from airpool.protocol import traffic
from airpool_runtime.secure import keys, messages, shamir
from airpool_runtime.secure.client import Client
from airpool_runtime.secure.messages import ComplaintError, Kind, RefusedError
from airpool_runtime.secure.server import Blame, SumServer, require_advert

from .test_faults import COUNT, TERMS, Round, flipped

LIAR = 2
SMALL = bytes(32)
HEAD = 17
ALL = tuple(range(COUNT))
OTHERS = tuple(k for k in ALL if k != LIAR)


def roster(fleet):
    return fleet[0]._roster[:COUNT]


def outcome(game):
    found = game.server.outcome
    assert found is not None
    return found


def no_values() -> Any:
    return []


def told(fleet, terms=TERMS, **changes: Any):
    """A game in which the liar's advert is changed, and the server does not check adverts."""
    game = Round(fleet, terms)
    game.clients[LIAR].advert = game.clients[LIAR].advert._replace(**changes)
    game.adverts[LIAR] = game.clients[LIAR].advert.to_bytes()
    game.server = SumServer(terms, bytes(16), game.adverts, roster(fleet))
    return game


BAD_ADVERTS: dict[str, Any] = {"certificate": bytes(64), "channel": SMALL, "mask_keys": (SMALL,)}


@pytest.mark.parametrize("field", BAD_ADVERTS)
def test_a_bad_advert_is_rejected_when_its_device_becomes_ready(fleet, field):
    good = Client(fleet[LIAR], TERMS, no_values).advert
    assert require_advert(good.to_bytes(), LIAR, TERMS, roster(fleet)) == good
    bad = good._replace(**{field: BAD_ADVERTS[field]}).to_bytes()
    with pytest.raises(RefusedError, match=r"small order|not signed by its identity"):
        require_advert(bad, LIAR, TERMS, roster(fleet))


def test_an_advert_of_another_device_other_terms_or_a_revoked_device_is_rejected(fleet):
    good = Client(fleet[LIAR], TERMS, no_values).advert.to_bytes()
    known = list(roster(fleet))
    for device, terms, of in (
        (LIAR + 1, TERMS, known),
        (LIAR, replace(TERMS, quorum=5), known),
        (LIAR, TERMS, [None] * COUNT),
    ):
        with pytest.raises(RefusedError, match="not signed by its identity for these terms"):
            require_advert(good, device, terms, of)


@pytest.mark.parametrize("known", [False, True], ids=["without a roster", "with a roster"])
@pytest.mark.parametrize("field", BAD_ADVERTS)
def test_devices_refuse_a_bad_advert_before_the_charge_and_name_its_device(fleet, field, known):
    """A server with a roster has checked the advert by it: there the others' rosters may be old, and none is blamed."""
    changed: dict[str, Any] = {field: BAD_ADVERTS[field]}
    game = told(fleet, **changed)
    game.server = SumServer(TERMS, bytes(16), game.adverts, roster(fleet) if known else None)
    for k, message in game.server.messages().items():
        if k != LIAR:
            with pytest.raises(ComplaintError, match=f"device {LIAR}: ") as caught:
                game.clients[k].accept(message)
            assert game.clients[k].over
            game.server.receive(k, caught.value.complaint)
    game.server.advance()
    assert outcome(game).total is None
    assert outcome(game).blamed == ({} if known else {LIAR: "5 devices cannot use what it sent"})
    assert outcome(game).doubted == ({LIAR: "5 devices cannot use what it sent"} if known else {})


def test_a_hash_of_another_seed_is_noticed_when_the_sum_is_opened(fleet):
    game = told(fleet, seed_hashes=(bytes(32),))
    game.finish()
    assert outcome(game).total is None
    assert outcome(game).blamed == {LIAR: "it has shared another seed than it advertised"}


def garbage(k, answer, *, start, size, to=ALL):
    """The liar's answer, changed in the piece for each of these devices."""
    if k != LIAR:
        return answer
    for device in to:
        place = start + device * size
        answer = answer[:place] + bytes(size) + answer[place + size :]
    return answer


CIPHERTEXTS = {"start": HEAD, "size": traffic.ciphertext_size(1)}
HASHES = {"start": HEAD + (COUNT - 1) * traffic.ciphertext_size(1), "size": 2 * traffic.HASH}


@pytest.mark.parametrize(("where", "to"), [(CIPHERTEXTS, range(COUNT - 1)), (HASHES, OTHERS)], ids=["shares", "hashes"])
def test_shares_that_no_device_can_use_stop_the_round_and_blame_the_dealer(fleet, where, to):
    game = Round(fleet)
    game.step(changed=lambda k, answer: garbage(k, answer, to=to, **where))
    game.finish()
    assert outcome(game).total is None
    assert outcome(game).blamed.keys() == {LIAR}
    assert "5 devices cannot use" in outcome(game).blamed[LIAR]


@pytest.mark.parametrize(("where", "to"), [(CIPHERTEXTS, (0, 3)), (HASHES, (0, 4))], ids=["shares", "hashes"])
def test_shares_that_two_of_six_cannot_use_cost_nothing_and_blame_no_device(fleet, where, to):
    """Neither the dealer nor those who complain: which of them lies is not known. The sum has all votes."""
    game = Round(fleet)
    game.step(changed=lambda k, answer: garbage(k, answer, to=to, **where))
    game.finish()
    assert game.opened(ALL)
    assert outcome(game).blamed == {}


def test_complaints_of_n_minus_t_devices_do_not_bring_blame_upon_another(fleet):
    """Devices 0 and 1 say that they cannot read device 5's shares, which are right."""
    game = Round(fleet)
    game.step()

    def framed(k, answer):
        place = HEAD + 3 * TERMS.ring.wire.itemsize
        return answer[:place] + messages.subset([5], ALL) + answer[place + 1 :] if k < 2 else answer

    game.step(changed=framed)
    game.finish()
    assert game.opened(ALL)
    assert outcome(game).blamed == {}


def test_a_wrong_share_blames_who_gives_it_out_never_the_dealer(fleet):
    """It had the dealer's hash before, and did not complain."""
    game = Round(fleet).at(3)
    game.step(changed=lambda k, answer: flipped(answer) if k == LIAR else answer)
    assert game.opened(ALL)
    assert outcome(game).blamed == {LIAR: "the share of device 5 that it gave out is not the one it had"}


def test_a_key_that_was_not_the_advertised_one_blames_its_dealer_when_it_vanishes(fleet):
    game = Round(fleet)
    game.clients[LIAR]._secrets[0].key = shamir.random_element()
    game.step()
    game.step(without=(LIAR,))
    game.finish(without=(LIAR,))
    assert outcome(game).total is None
    assert outcome(game).blamed == {LIAR: "it has shared another key than it advertised"}


@pytest.mark.parametrize("step", range(4))
def test_an_answer_that_cannot_be_read_blames_its_sender(fleet, step):
    game = Round(fleet).at(step)
    message = game.server.messages()[LIAR]
    with pytest.raises(RefusedError):
        game.server.receive(LIAR, game.clients[LIAR].answer(message)[:-1])
    assert LIAR not in game.server.waiting
    game.finish(without=(LIAR,))
    assert outcome(game).total is not None
    assert outcome(game).blamed.keys() == {LIAR}


def test_a_late_answer_is_no_fault(fleet):
    game = Round(fleet)
    late = game.clients[5].answer(game.server.messages()[5])
    game.step(without=(5,))
    with pytest.raises(RefusedError, match="no answer is expected"):
        game.server.receive(5, late)
    game.finish(without=(5,))
    assert outcome(game).blamed == {}


def test_a_false_signature_is_named_where_it_stops_the_round(fleet):
    """Four of four must sign: devices 4 and 5 are gone."""
    game = Round(fleet, replace(TERMS, quorum=4))
    game.server = SumServer(game.terms, bytes(16), {k: game.adverts[k] for k in range(4)}, roster(fleet))
    game.step()
    game.step(changed=lambda k, answer: flipped(answer) if k == LIAR else answer)
    for k, message in game.server.messages().items():
        if k != LIAR:
            with pytest.raises(RefusedError, match="3 signatures"):
                game.clients[k].answer(message)
    game.server.advance()
    assert outcome(game).blamed == {LIAR: "its signature on the list of survivors does not hold"}


@pytest.mark.parametrize("names", [[], [0], [0, 1]])
def test_a_complaint_about_no_other_device_blames_its_sender(fleet, names):
    game = Round(fleet)
    complaint = messages.pack(Kind.COMPLAINT, game.server._group.inference, messages.subset(names, ALL))
    with pytest.raises(RefusedError, match="names no other device"):
        game.server.receive(0, complaint)
    game.finish(without=(0,))
    assert outcome(game).blamed.keys() == {0}


def test_where_no_device_can_be_spared_both_of_a_dispute_are_left_out():
    blame = Blame(4, 4)
    blame.complaint(0, [3])
    assert blame.verdict().keys() == {0, 3}
    blame.complaint(1, [3])
    assert blame.verdict() == {3: "2 devices cannot use what it sent"}


def test_the_certificate_of_a_session_is_of_its_terms(fleet):
    session = fleet[0]
    assert session.certificate(b"a") != session.certificate(b"b")
    assert keys.verified(roster(fleet)[0], session.certificate(b"a"), keys._certified(0, session.channel, b"a"))
