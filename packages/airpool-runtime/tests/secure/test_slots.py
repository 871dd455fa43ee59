"""Several slots of one inference: fresh keys for each, one sum a slot, in order, nothing of those that are not held."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airpool.protocol import traffic
from airpool.protocol.ring import Ring
from airpool.protocol.traffic import MOST_KEYS
from airpool_runtime.secure import keys, masks, messages, shamir
from airpool_runtime.secure.client import Client
from airpool_runtime.secure.group import Group, Terms, slot_id
from airpool_runtime.secure.masks import own_key, pair_key, share_hash
from airpool_runtime.secure.messages import Kind, RefusedError
from airpool_runtime.secure.rehearsal import STEPS, rehearse_slots
from airpool_runtime.secure.server import SumServer

from .test_faults import COUNT, TERMS, Round

ALL = range(COUNT)
THREE = replace(TERMS, slots=3)
HEAD = 17


def in_slot(fleet, number, **how):
    return Round(fleet, THREE).in_slot(number, **how)


# The sum


def one_inference(rng, fleet, most):
    count = int(rng.integers(2, most + 1))
    t = int(rng.integers(count // 2 + 1, count + 1))
    slots, held = (int(x) for x in np.sort(rng.integers(1, 6, 2))[::-1])
    terms = Terms(count, t, count, 0, int(rng.integers(1, 9)), Ring(1.0, 32), slots=slots)
    values = [
        {k: terms.ring.reduced(rng.integers(0, 2**64, terms.dimension, dtype=np.uint64)) for k in range(count)}
        for _ in range(held)
    ]
    gone = rng.choice(count, int(rng.integers(0, count - t + 2)), replace=False)
    vanish = {int(k): (int(rng.integers(0, held)), int(rng.integers(0, len(STEPS)))) for k in gone}
    done = rehearse_slots(values, terms, fleet, vanish=vanish)
    for slot, outcome in enumerate(done.outcomes):
        arrived = tuple(k for k in range(count) if vanish.get(k, (held, 0)) > (slot, 1))
        left = [k for k in range(count) if vanish.get(k, (held, 0)) >= (slot + 1, 0)]
        if len(left) >= t:
            assert outcome.survivors == arrived
            assert outcome.total is not None
            assert np.array_equal(outcome.total, terms.ring.total(values[slot][k] for k in arrived))
        else:
            assert outcome.total is None
            assert slot == len(done.outcomes) - 1  # a slot that is dropped is the last
        assert outcome.blamed == {}
    return done.outcome.total is None


@pytest.mark.parametrize("seed", range(2))
def test_every_slot_has_the_exact_sum_of_its_own_survivors_or_is_the_last(fleet, seed):
    rng = np.random.default_rng(seed)
    dropped = [one_inference(rng, fleet, 9) for _ in range(25)]
    assert 0 < sum(dropped) < len(dropped)


@pytest.mark.check
def test_many_inferences_with_slots_are_exact_or_dropped(fleet):
    rng = np.random.default_rng(7)
    dropped = [one_inference(rng, fleet, 20) for _ in range(150)]
    assert 0 < sum(dropped) < len(dropped)


@pytest.mark.parametrize(("slots", "held"), [(1, 1), (4, 1), (4, 4), (16, 7)])
def test_bytes_are_those_of_the_formula(fleet, slots, held):
    terms = Terms(12, 8, 12, 0, 40, Ring(2.0**-24, 32), slots=slots)
    values = {k: np.zeros(40, np.uint64) for k in range(12)}
    done = rehearse_slots([values] * held, terms, fleet)
    assert (done.sent[0], done.received[0]) == traffic.traffic(12, 160, slots, held)


# Fresh keys for each slot


def heard_alone(game, masked, opened_seed, opened_key, device):
    """What the server makes of a device's values of slot 0, from a seed and a mask key that it has."""
    group = game.server._group
    slot, ring, r = group.slot(0), game.terms.ring, game.terms.dimension
    private = keys.mask_key(opened_key)
    others = [k for k in ALL if k != device]
    agreed = {k: keys.agreed(private, group.adverts[k].mask_keys[0]) for k in others}
    pairs = {k: masks.stream(pair_key(slot, agreed[k], device, k), ring, r) for k in others}
    return ring.reduced(masked - masks.stream(own_key(slot, opened_seed), ring, r) - masks.pairwise(device, pairs))


def attacked(fleet, monkeypatch, *, kept):
    """Device 5 survives slot 0, which opens its seed, and is named dead in slot 1, which opens its mask key.

    Returns whether its values of slot 0 can be read. kept: the devices use one key and one seed for all slots.
    """
    game = Round(fleet, THREE)
    if kept:
        monkeypatch.setattr(Group, "__post_init__", lambda _: None)  # which refuses such adverts
        for client in game.clients.values():
            for slot in (1, 2):
                client._secrets[slot] = replace(client._secrets[0], held={})
            (key, *_), (seed, *_) = client.advert.mask_keys, client.advert.seed_hashes
            client.advert = client.advert._replace(mask_keys=(key,) * 3, seed_hashes=(seed,) * 3)
        game.adverts = {k: client.advert.to_bytes() for k, client in game.clients.items()}
        game.server = SumServer(THREE, bytes(16), game.adverts)
    found = []
    recover = game.server._secret
    game.server._secret = lambda device, good, alive: (
        found.append((device, alive, recover(device, good, alive=alive))) or found[-1][2]
    )
    game.step()
    for k, message in game.server.messages().items():
        game.server.receive(k, game.clients[k].answer(message))
    masked = game.server._answers[5][0]
    game.server.advance()
    game.finish()
    assert game.opened(ALL)
    game.server.go_on(ALL)
    game.step(without=(5,))
    game.finish()
    assert game.opened(range(5))
    (seed,) = (secret for device, alive, secret in found if device == 5 and alive)
    (key,) = (secret for device, alive, secret in found if device == 5 and not alive)
    return np.array_equal(heard_alone(game, masked, seed, key, 5), game.values[5])


def test_with_keys_kept_over_slots_a_device_that_is_named_dead_later_would_be_heard_alone(fleet, monkeypatch):
    assert attacked(fleet, monkeypatch, kept=True)


def test_with_fresh_keys_it_is_not(fleet, monkeypatch):
    assert not attacked(fleet, monkeypatch, kept=False)


def test_a_mask_key_that_stands_for_two_slots_is_refused(fleet):
    game = Round(fleet, THREE)
    advert = game.clients[1].advert
    (first, _, third) = advert.mask_keys
    game.adverts[1] = advert._replace(mask_keys=(first, first, third)).to_bytes()
    with pytest.raises(RefusedError, match="advertised twice"):
        SumServer(THREE, bytes(16), game.adverts)
    for another in (game.clients[0].advert.mask_keys[2], game.clients[0].advert.mask_keys[1]):
        game.adverts[1] = advert._replace(mask_keys=(first, another, third)).to_bytes()
        with pytest.raises(RefusedError, match="advertised twice"):
            SumServer(THREE, bytes(16), game.adverts)


def test_a_mask_key_of_small_order_for_a_later_slot_is_refused_before_the_charge(fleet):
    game = Round(fleet, THREE)
    advert = game.clients[1].advert
    game.adverts[1] = advert._replace(mask_keys=(*advert.mask_keys[:2], bytes(32))).to_bytes()
    message = SumServer(THREE, bytes(16), game.adverts).messages()[0]
    with pytest.raises(RefusedError, match="device 1: an advert with a key of small order"):
        game.clients[0].accept(message)


def test_no_secret_share_or_mask_of_a_slot_is_that_of_another(fleet):
    game = Round(fleet, THREE)
    made = [each for client in game.clients.values() for each in client._secrets.values()]
    assert len({each.key for each in made} | {each.seed for each in made}) == 6 * COUNT
    game.step()
    dealt = [share for dealer in ALL for holder in ALL for share in game.hashes(dealer, holder)]
    assert len(set(dealt)) == len(dealt) == COUNT * COUNT * 6
    slots = [game.server._group.slot(number) for number in range(3)]
    assert len({own_key(slot, 1) for slot in slots} | {pair_key(slot, bytes(32), 0, 1) for slot in slots}) == 6


# Key or seed, for each slot separately, with t signatures of that slot


def test_in_each_slot_a_share_of_key_or_seed_of_that_slot_is_given_out_never_both(fleet):
    """All survive slot 0; device 5 dies in slot 1, device 4 in slot 2. Shares are known by their hashes."""
    game = Round(fleet, THREE)
    game.step()
    for slot, dead in enumerate(((), (5,), (4,))):
        there = list(game.server.messages())
        game.step(without=dead)
        if dead:
            game.step(without=dead)
        for k, message in game.server.messages().items():
            answer = game.clients[k].answer(message)
            given = messages.cut(answer[HEAD:], shamir.SIZE, len(there))
            kinds = [game.hashes(of, k).index(share_hash(share)) for of, share in zip(there, given, strict=True)]
            assert kinds == [2 * slot + (of not in dead) for of in there]
            game.server.receive(k, answer)
        game.server.advance()
        assert game.opened([k for k in there if k not in dead])
        if slot < 2:
            game.server.go_on(game.server.staying())


def test_signatures_of_one_slot_do_not_open_another(fleet):
    """The lists are the same: all six. The server gives slot 1 the signatures of slot 0."""
    game = Round(fleet, THREE)
    for _ in range(2):
        game.step()
    old = list(game.server._signatures.values())
    game.finish()
    game.server.go_on(ALL)
    game.step()
    said = messages.pack(Kind.SIGNED, game.server._slot.id, messages.subset(ALL, ALL), *old)
    with pytest.raises(RefusedError, match="1 signatures on this list"):
        game.clients[0].answer(said)


def test_statements_bind_the_inference_the_slot_and_both_lists(fleet):
    game, other = Round(fleet, THREE), Round(fleet, THREE)
    said = [
        group.slot(number).statement(sharing, survivors)
        for group in (game.server._group, other.server._group)
        for number in range(3)
        for sharing, survivors in (([0, 1, 2, 3, 4], [0, 1, 2, 3]), ([0, 1, 2, 3], [0, 1, 2, 3]))
    ]
    assert len(set(said)) == len(said)


def test_with_fewer_than_t_signatures_of_a_later_slot_nothing_of_it_is_given_out(fleet):
    game = in_slot(fleet, 1)
    game.step()
    signatures = list(game.server._signatures.values())[:3]
    said = messages.pack(Kind.SIGNED, game.server._slot.id, messages.subset(range(3), ALL), *signatures)
    with pytest.raises(RefusedError, match="3 signatures on this list"):
        game.clients[0].answer(said)
    assert game.clients[0]._secrets == {}


# Survivors differ from slot to slot


def test_a_device_that_vanished_is_in_no_later_slot_and_costs_no_further_step(fleet):
    game = in_slot(fleet, 1, without=(5,))
    assert list(game.server.messages()) == list(range(5))
    game.step()
    assert game.server._kind == Kind.REVEALED  # all that are in the slot have signed
    game.finish()
    assert game.opened(range(5))


def test_a_device_that_was_named_dead_is_not_accepted_again_by_the_others(fleet):
    """The server says that it is back: its list can only name those that the devices have signed for."""
    game = in_slot(fleet, 1, without=(5,))
    back = messages.pack(Kind.NEXT, game.server._slot.id, messages.subset(ALL, ALL))
    with pytest.raises(RefusedError, match="beyond those it may name"):
        game.clients[0].accept(back)


def test_a_device_that_did_not_reveal_is_in_no_later_slot(fleet):
    game = Round(fleet, THREE).at(3)
    game.step(without=(2,))
    assert game.opened(ALL)
    assert game.server.staying() == {0, 1, 3, 4, 5}


def test_a_device_that_gave_out_a_wrong_share_is_in_no_later_slot(fleet):
    game = Round(fleet, THREE).at(3)
    game.step(changed=lambda k, answer: answer[:-1] + bytes([answer[-1] ^ 1]) if k == 2 else answer)
    assert game.opened(ALL)
    assert game.server.staying() == {0, 1, 3, 4, 5}


@pytest.mark.parametrize("left", [3, 0])
def test_fewer_than_t_devices_are_in_no_slot(fleet, left):
    """Neither the server begins it, nor does a device take part in it."""
    game = Round(fleet, THREE)
    game.finish()
    with pytest.raises(RefusedError, match=f"{left} devices can be in slot 1, must be 4"):
        game.server.go_on(range(left))
    said = messages.pack(Kind.NEXT, slot_id(game.server._group.inference, 1), messages.subset(range(3), ALL))
    with pytest.raises(RefusedError, match="3 devices are in this slot, must be 4"):
        game.clients[0].accept(said)


def test_a_device_takes_part_in_no_slot_of_devices_whose_shares_it_cannot_read(fleet):
    """Two of six dealt it garbage: it goes on with the others, t of them, and not with fewer of these."""
    game = Round(fleet, THREE)
    sealed = traffic.ciphertext_size(3)
    game.step(changed=lambda k, a: a[:HEAD] + bytes(sealed) + a[HEAD + sealed :] if k in (1, 2) else a)
    game.step()
    game.finish()
    assert game.opened(ALL)
    without_5 = messages.pack(Kind.NEXT, slot_id(game.server._group.inference, 1), messages.subset(range(5), ALL))
    with pytest.raises(RefusedError, match="the shares of 2 devices are not what they sent"):
        game.clients[0].accept(without_5)


# Slots that are not held, in order, each once, at most N


def test_of_slots_that_are_not_held_nothing_leaves_a_device(fleet):
    """Everything that the devices sent after they had dealt: no share in it is of a later slot."""
    game = Round(fleet, THREE)
    game.step()
    said = []
    game.finish(changed=lambda k, answer: said.append((k, answer)) or answer)
    later = {share for dealer in ALL for holder in ALL for share in game.hashes(dealer, holder)[2:]}
    given = [
        share_hash(share)
        for _, answer in said
        if answer[0] == Kind.REVEALED
        for share in messages.cut(answer[HEAD:], shamir.SIZE)
    ]
    assert len(given) == COUNT**2
    assert not later & set(given)


def test_secrets_are_forgotten_slot_by_slot_and_all_of_them_at_the_end(fleet):
    game = in_slot(fleet, 1)
    client = game.clients[0]
    assert list(client._secrets) == [1, 2]
    assert len(client._secrets[1].held) == len(client._secrets[2].held) == COUNT
    client.close()  # the inference ends before its last slot
    assert (client._secrets, client._state) == ({}, {})
    with pytest.raises(RefusedError, match="over for this device"):
        client.answer(game.server.messages()[0])


def test_an_error_in_a_slot_ends_the_inference_for_the_device(fleet):
    game = in_slot(fleet, 1)
    with pytest.raises(RefusedError):
        game.clients[0].answer(b"")
    assert game.clients[0].over
    game.finish(without=(0,))
    assert game.opened(range(1, COUNT))


@pytest.mark.parametrize("number", [0, 2, 3])
def test_slots_out_of_order_are_refused(fleet, number):
    game = in_slot(fleet, 1)
    said = messages.pack(Kind.NEXT, slot_id(game.server._group.inference, number), messages.subset(ALL, ALL))
    with pytest.raises(RefusedError, match="of another inference or slot"):
        game.clients[0].answer(said)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, HEAD), noise=st.binary(min_size=1, max_size=4), cut=st.integers(0, 4))
def test_whatever_begins_a_slot_it_is_that_slot_or_refused(fleet, place, noise, cut):
    """What a device accepts names the slot, t of its devices or more, and itself."""
    game = in_slot(fleet, 1)
    message = game.server.messages()[0]
    changed = message[:place] + noise + message[place + cut :]
    try:
        game.clients[0].answer(changed)
    except RefusedError:
        return
    named, rest = messages.chosen(changed[HEAD:], list(ALL))
    assert changed[:HEAD] == message[:HEAD]
    assert rest == b""
    assert 0 in named
    assert len(named) >= TERMS.survivors


def test_a_slot_is_not_held_twice(fleet):
    game = in_slot(fleet, 1)
    again = game.server.messages()[0]
    for where in ("answered", "revealed"):
        game.step()
        client = game.clients[0 if where == "answered" else 1]
        with pytest.raises(RefusedError):
            client.answer(again)
        if where == "answered":
            game.finish(without=(0,))


def test_a_slot_that_was_left_open_is_not_followed_by_the_next(fleet):
    """A device that has sent its values gives out the shares of that slot, or takes part no more."""
    game = in_slot(fleet, 1)
    game.step()
    said = messages.pack(Kind.NEXT, slot_id(game.server._group.inference, 2), messages.subset(ALL, ALL))
    with pytest.raises(RefusedError, match="a message other than SURVIVORS or SIGNED"):
        game.clients[0].answer(said)


def test_there_are_no_more_slots_than_agreed(fleet):
    game = in_slot(fleet, 2)
    game.finish()
    assert game.server.staying() == set()
    assert all(client.over for client in game.clients.values())
    with pytest.raises(RefusedError, match="0 devices can be in slot 3"):
        game.server.go_on(ALL)
    with pytest.raises(RefusedError, match="over for this device"):
        game.clients[0].accept(messages.pack(Kind.NEXT, slot_id(game.server._group.inference, 3), b"\x3f"))


def test_a_dropped_slot_is_the_last(fleet):
    game = in_slot(fleet, 1)
    game.step(without=(0, 1, 2))
    assert game.server.outcome is not None
    assert game.server.outcome.total is None
    assert game.server.staying() == set()


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_devices_of_another_number_of_slots_do_not_work_together(fleet, slots):
    game = Round(fleet, THREE)
    another = Client(fleet[0], replace(TERMS, slots=slots), lambda: game.values[0])
    with pytest.raises(RefusedError):
        another.accept(game.server.messages()[0])


def test_the_number_of_slots_is_part_of_the_terms_and_has_a_limit():
    assert replace(TERMS, slots=3).digest != TERMS.digest
    for bad in (0, MOST_KEYS // COUNT + 1):
        with pytest.raises(ValueError, match=f"has 1 to {MOST_KEYS // COUNT} slots an inference, not {bad}"):
            replace(TERMS, slots=bad)
    largest = 2 + traffic.advert_size(MOST_KEYS) + MOST_KEYS * 2 * traffic.HASH
    assert largest < 4 * 2**20
