"""Lying servers and devices, lost and changed messages: refused, nothing learnt, and the next round works."""

import secrets
from contextlib import nullcontext
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airpool.protocol import traffic
from airpool.protocol.ring import Ring
from airpool_runtime.secure import keys, messages, shamir
from airpool_runtime.secure.client import Client
from airpool_runtime.secure.group import Terms
from airpool_runtime.secure.keys import Session
from airpool_runtime.secure.masks import share_hash
from airpool_runtime.secure.messages import Kind, RefusedError
from airpool_runtime.secure.rehearsal import rehearse, sessions
from airpool_runtime.secure.server import SumServer

COUNT = 6
TERMS = Terms(num_devices=COUNT, survivors=4, quorum=COUNT, colluders=1, dimension=3, ring=Ring(1.0, 32))


# The sum without device 0 from a step on: until it has sent its values, it is not in it. In step 2 device 5 is not.
SUMMED_WITHOUT_0 = (range(1, COUNT), range(1, COUNT), range(5), range(COUNT))


class Round:
    """Six devices and a server, driven by hand."""

    def __init__(self, fleet, terms=TERMS, inference=None):
        self.fleet, self.terms = fleet, terms
        self.values = {k: np.arange(3, dtype=np.uint64) + np.uint64(10**k) for k in range(COUNT)}
        self.clients = {k: Client(fleet[k], terms, lambda k=k: self.values[k]) for k in range(COUNT)}
        self.adverts = {k: client.advert.to_bytes() for k, client in self.clients.items()}
        self.server = SumServer(terms, inference or secrets.token_bytes(16), self.adverts)
        self.seen = []

    def at(self, step):
        """Up to a step of share, mask, sign and reveal. There is one to sign after device 5 has vanished."""
        for done in range(min(step, 2)):
            self.step(without=(5,) if (step, done) == (2, 1) else ())
        return self

    def in_slot(self, number, *, without=()):
        """Up to the beginning of a slot: the values are asked for. without: devices that vanish in the first one."""
        self.step()
        for _ in range(number):
            self.step(without=without)
            self.finish()
            self.server.go_on(self.server.staying())
        return self

    def finish(self, **how):
        while self.server.outcome is None:
            self.step(**how)

    def step(self, *, without=(), changed=None):
        """One step of all devices; `changed` maps an answer before the server has it."""
        self.seen.append(self.server.messages())
        for k, message in self.seen[-1].items():
            if k not in without:
                answer = self.clients[k].answer(message)
                self.server.receive(k, answer if changed is None else changed(k, answer))
        self.server.advance()

    def opened(self, devices):
        """Whether the server has the sum of these devices."""
        outcome = self.server.outcome
        assert outcome is not None
        return outcome.total is not None and np.array_equal(outcome.total, self.total_of(devices))

    def hashes(self, dealer, holder):
        """Of the shares that a device has dealt to another: of key, of seed, slot by slot."""
        return messages.cut(self.server._hashes[dealer][holder], traffic.HASH)

    def total_of(self, devices):
        return self.terms.ring.total(self.values[k] for k in devices)


@pytest.fixture
def game(fleet):
    return Round(fleet)


def works(fleet):
    again = Round(fleet)
    again.finish()
    return again.opened(range(COUNT))


def flipped(message, place=-1):
    changed = bytearray(message)
    changed[place] ^= 1
    return bytes(changed)


# Devices that lie


def test_a_wrong_share_is_noticed_named_and_done_without(game, fleet):
    game.at(3).step(changed=lambda k, answer: flipped(answer) if k == 2 else answer)
    outcome = game.server.outcome
    assert list(outcome.blamed) == [2]
    assert np.array_equal(outcome.total, game.total_of(range(COUNT)))
    assert works(fleet)


def test_with_fewer_than_t_right_shares_the_round_is_dropped(game, fleet):
    game.at(3).step(changed=lambda k, answer: flipped(answer) if k < 3 else answer)
    outcome = game.server.outcome
    assert outcome.total is None
    assert "do not give its seed" in outcome.dropped
    assert list(outcome.blamed) == [0, 1, 2]
    assert works(fleet)


def test_a_dealer_whose_shares_are_of_another_secret_is_noticed(game):
    """Device 1 deals shares of a seed that it did not advertise, with the right hashes of them."""
    game.clients[1]._secrets[0].seed = shamir.random_element()
    game.finish()
    assert game.server.outcome.total is None
    assert "device 1" in game.server.outcome.dropped
    assert game.server.outcome.blamed == {1: "it has shared another seed than it advertised"}


@pytest.mark.parametrize("step", range(4))
def test_an_answer_of_wrong_length_counts_as_none(game, step):
    answers = {k: game.clients[k].answer(message) for k, message in game.at(step).server.messages().items()}
    for cut in (answers[0][:-1], answers[0] + b"\0", b"", answers[0][:5]):
        with pytest.raises(RefusedError):
            game.server.receive(0, cut)
    del answers[0]
    for k, answer in answers.items():
        game.server.receive(k, answer)
    game.server.advance()
    game.finish()
    assert game.opened(SUMMED_WITHOUT_0[step])


def test_an_answer_is_taken_once(game):
    message = game.server.messages()[0]
    answer = game.clients[0].answer(message)
    game.server.receive(0, answer)
    with pytest.raises(RefusedError, match="no answer is expected"):
        game.server.receive(0, answer)
    with pytest.raises(RefusedError, match="no answer is expected"):
        game.server.receive(17, answer)


def test_an_answer_of_another_inference_is_refused(game, fleet):
    other = Round(fleet)
    old = other.clients[0].answer(other.server.messages()[0])
    with pytest.raises(RefusedError, match="of another inference or slot"):
        game.server.receive(0, old)


# Messages that are replayed, swapped or changed on their way to a device


@pytest.mark.parametrize("step", range(4))
def test_a_replayed_message_is_refused_and_ends_the_inference_for_the_device(game, fleet, step):
    client, seen = game.clients[0], game.at(step).seen
    replayed = seen[-1][0] if seen else Round(fleet).server.messages()[0]  # at first: another inference's announcement
    with pytest.raises(RefusedError):
        client.answer(replayed)
    with pytest.raises(RefusedError, match="over for this device"):
        client.answer(game.server.messages()[0])
    game.finish(without=(0,))
    assert game.opened(SUMMED_WITHOUT_0[step])
    assert works(fleet)


def test_shares_meant_for_another_device_are_refused(game):
    game.step()
    mine, other = (game.server.messages()[k] for k in (0, 1))
    with pytest.raises(RefusedError, match="not what they sent"):
        game.clients[0].answer(other)
    assert mine != other


def test_the_same_ids_do_not_make_an_old_message_valid(fleet):
    """Keys are fresh, so that even an inference of the same id has another transcript."""
    first = Round(fleet, inference=bytes(16))
    first.step()
    again = Round(fleet, inference=bytes(16))
    again.step()
    with pytest.raises(RefusedError, match="not what they sent"):
        again.clients[0].answer(first.server.messages()[0])


@pytest.mark.parametrize("step", range(4))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_device_is_sent_it_answers_or_refuses(fleet, step, data):
    game = Round(fleet).at(step)
    message = game.server.messages()[0]
    place = data.draw(st.integers(0, len(message) - 1))
    noise = data.draw(st.binary(max_size=40))
    changed = message[:place] + noise + message[place + data.draw(st.integers(0, len(noise))) :]
    try:
        answer = game.clients[0].answer(changed)
    except RefusedError:
        return
    # What it answers goes on under another transcript, or the change is without effect.
    assert answer[0] == 2 * (step + 1)


@pytest.mark.parametrize("step", range(4))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=700))
def test_whatever_the_server_is_sent_it_takes_or_refuses(fleet, step, noise):
    game = Round(fleet).at(step)
    head = messages.pack(Kind(2 * (step + 1)), game.server._slot.id if step else game.server._group.inference)
    for data in (noise, head + noise):
        try:
            game.server.receive(0, data)
        except RefusedError:
            continue


# A server that lies


def test_a_mask_key_of_the_servers_own_is_noticed_before_any_values_leave(game, fleet):
    """The server tells device 0 another mask key for device 1: device 0 ends, and called for no values."""
    game.adverts[1] = Client(fleet[1], TERMS, lambda: game.values[1]).advert.to_bytes()
    told = SumServer(TERMS, game.server._group.inference, game.adverts).messages()[0]
    asked = []
    game.clients[0]._values = lambda: asked.append(True)
    answer = game.clients[0].answer(told)
    for k in range(1, COUNT):
        game.server.receive(k, game.clients[k].answer(game.server.messages()[k]))
    game.server.receive(0, answer)
    game.server.advance()
    with pytest.raises(RefusedError, match="not what they sent"):
        game.clients[0].answer(game.server.messages()[0])
    assert asked == []
    game.finish(without=(0,))  # the others cannot read what device 0 has dealt, and say so: nothing is opened
    assert game.server.outcome.total is None
    assert game.server.outcome.blamed == {0: "5 devices cannot use what it sent"}


@pytest.mark.parametrize(("own", "values_leave"), [((4, 5), True), ((3, 4, 5), False)])
def test_of_the_mask_keys_k_less_t_may_be_the_servers_own(game, fleet, own, values_leave):
    """It tells the others its own mask keys of some devices: t with true keys of each other go on, fewer do not."""
    asked, others = [], [k for k in range(COUNT) if k not in own]
    dealt = {k: game.clients[k].answer(game.server.messages()[k]) for k in own}
    for k in own:
        game.adverts[k] = Client(fleet[k], TERMS, lambda k=k: game.values[k]).advert.to_bytes()
    game.server = SumServer(TERMS, game.server._group.inference, game.adverts)
    for k in others:
        game.clients[k]._values = lambda k=k: asked.append(k) or game.values[k]
        dealt[k] = game.clients[k].answer(game.server.messages()[k])
    for k, answer in dealt.items():
        game.server.receive(k, answer)
    game.server.advance()
    for k in others:
        with nullcontext() if values_leave else pytest.raises(RefusedError, match="not what they sent"):
            game.clients[k].answer(game.server.messages()[k])
    assert asked == (others if values_leave else [])
    assert (len(others) >= TERMS.survivors) == values_leave


def test_a_device_that_the_server_invents_is_refused(game, fleet):
    """Its channel key is signed by no identity of the roster."""
    stranger = sessions(50)[5]
    game.adverts[5] = Client(stranger, TERMS, lambda: game.values[5]).advert.to_bytes()
    message = SumServer(TERMS, bytes(16), game.adverts).messages()[0]
    with pytest.raises(RefusedError, match="not signed by its identity"):
        game.clients[0].answer(message)


def test_a_device_under_another_ones_number_is_refused(game):
    """The certificate names the device: an advert of device 4 does not pass as device 3's."""
    swapped = game.adverts | {3: game.adverts[4], 4: game.adverts[3]}
    message = SumServer(TERMS, bytes(16), swapped).messages()[0]
    with pytest.raises(RefusedError, match="not signed by its identity"):
        game.clients[0].answer(message)


def test_fewer_ready_devices_than_the_quorum_are_refused(game):
    fewer = {k: game.adverts[k] for k in range(4)}
    with pytest.raises(RefusedError, match="4 devices are ready, must be from 6 to 6"):
        SumServer(TERMS, bytes(16), fewer)
    lax = replace(TERMS, quorum=4)
    with pytest.raises(RefusedError, match="4 devices are ready, must be from 6 to 6"):
        game.clients[0].answer(SumServer(lax, bytes(16), fewer).messages()[0])


@pytest.mark.parametrize(
    "terms",
    [
        replace(TERMS, survivors=5),
        replace(TERMS, colluders=0),
        replace(TERMS, quorum=5),
        replace(TERMS, ring=Ring(0.5, 32)),
        replace(TERMS, network=b"another"),
    ],
)
def test_devices_of_other_terms_do_not_work_together(fleet, terms):
    """Terms are signed with the channel key: the group is refused before anything is shared."""
    game = Round(fleet)
    game.clients[3] = Client(fleet[3], terms, lambda: game.values[3])
    game.adverts[3] = game.clients[3].advert.to_bytes()
    game.server = SumServer(TERMS, bytes(16), game.adverts)
    for k, message in game.server.messages().items():
        with pytest.raises(RefusedError, match="for these terms"):
            game.clients[k].accept(message)


@pytest.mark.parametrize("told_all", range(COUNT + 1))
@pytest.mark.parametrize("number", [0, 1])
def test_two_lists_of_survivors_open_one_sum_of_a_slot_at_most(fleet, told_all, number):
    """The server names device 5 dead to some and alive to the others, for every way to divide them; device 4 colludes.

    All have signed the list of six with their values. Of the others' answers to the list of five it takes what it gets.
    """
    game, everybody, five = Round(fleet, replace(TERMS, slots=2)), list(range(COUNT)), list(range(5))
    game.in_slot(number)
    whole = {k: game.clients[k].answer(message) for k, message in game.server.messages().items()}
    id = game.server._slot.id
    first = {k: answer[-traffic.SIGNATURE :] for k, answer in whole.items()}
    told = messages.pack(Kind.SURVIVORS, id, messages.subset(five, everybody))
    second = {}
    for k in five[told_all:]:
        second[k] = game.clients[k].answer(told)[17:]
    lists = {True: (everybody, first), False: (five, second)}
    kinds = {4: {0, 1}}  # of device 5's shares, those that the server has, by holder: of key (0), of seed (1)
    for k in everybody:
        named, signatures = lists[k < told_all or k == 5]
        who = sorted(signatures)
        said = messages.pack(Kind.SIGNED, id, messages.subset(who, named), *(signatures[j] for j in who))
        try:
            given_out = messages.cut(game.clients[k].answer(said)[17:], shamir.SIZE, COUNT)
        except RefusedError:
            continue
        kinds.setdefault(k, set()).add(game.hashes(5, k).index(share_hash(given_out[5])) - 2 * number)
    key, seed = (sum(kind in each for each in kinds.values()) >= TERMS.survivors for kind in (0, 1))
    assert not (key and seed)
    assert works(fleet)


def test_a_device_that_has_signed_a_shorter_list_no_longer_opens_the_longer_one(game):
    game.step()
    whole = {k: game.clients[k].answer(message) for k, message in game.server.messages().items()}
    id, everybody = game.server._slot.id, list(range(COUNT))
    game.clients[0].answer(messages.pack(Kind.SURVIVORS, id, messages.subset(range(5), everybody)))
    signatures = [answer[-traffic.SIGNATURE :] for answer in whole.values()]
    everything = messages.pack(Kind.SIGNED, id, messages.subset(range(5), range(5)), *signatures[:5])
    with pytest.raises(RefusedError, match="1 signatures on this list"):
        game.clients[0].answer(everything)


def test_a_shorter_list_is_signed_once(game):
    message = game.at(2).server.messages()[0]
    assert message[0] == Kind.SURVIVORS
    game.clients[0].answer(message)
    with pytest.raises(RefusedError):
        game.clients[0].answer(message)


def test_the_same_signature_many_times_counts_once(game):
    game.at(2)
    slot, everybody = game.server._slot, list(range(5))
    signature = game.clients[0].answer(game.server.messages()[0])[17:]
    game.clients[1].answer(game.server.messages()[1])
    said = messages.pack(Kind.SIGNED, slot.id, messages.subset(everybody, everybody), *[signature] * 5)
    with pytest.raises(RefusedError, match="2 signatures on this list"):
        game.clients[1].answer(said)


def test_too_few_survivors_are_not_signed(game):
    for _ in range(2):
        game.step()
    said = messages.pack(Kind.SURVIVORS, game.server._slot.id, messages.subset([0, 1, 2], list(range(COUNT))))
    with pytest.raises(RefusedError, match="3 survivors, must be 4"):
        game.clients[0].answer(said)


def test_shares_are_given_out_once(game):
    message = game.at(3).server.messages()[0]
    game.clients[0].answer(message)
    with pytest.raises(RefusedError, match="over for this device"):
        game.clients[0].answer(message)


def test_of_every_device_a_share_of_key_or_seed_is_given_out_never_both(game):
    """Device 5 vanished: its key's shares; of the others the seeds'."""
    game.step()
    game.step(without=(5,))
    game.step()
    for k in range(5):
        given_out = messages.cut(game.clients[k].answer(game.server.messages()[k])[17:], shamir.SIZE, COUNT)
        assert [game.hashes(of, k).index(share_hash(share)) for of, share in enumerate(given_out)] == [1, 1, 1, 1, 1, 0]


def test_a_live_device_that_is_named_dead_loses_its_vote_and_nothing_else(game, fleet):
    """Its values arrived, but the server says they did not: it gets the sum of the others, and of its seed no share."""
    game.step()
    late = game.clients[5].answer(game.server.messages()[5])
    game.step(without=(5,))
    with pytest.raises(RefusedError, match="no answer is expected"):
        game.server.receive(5, late)
    for _ in range(2):
        game.step()
    assert game.opened(range(5))
    with pytest.raises(RefusedError):  # asked to sign a list without itself
        game.clients[5].answer(
            messages.pack(Kind.SURVIVORS, game.server._slot.id, messages.subset(range(5), range(COUNT)))
        )
    assert works(fleet)


def test_below_t_in_any_step_the_round_is_dropped_and_no_secret_was_given_out(fleet):
    for step in range(4):
        game = Round(fleet).at(step)
        game.step(without=(0, 1, 2))
        assert game.server.outcome is not None
        assert game.server.outcome.total is None
        assert game.server.messages() == {}
    assert works(fleet)


# The rule 2t > n + c


def test_terms_that_allow_two_lists_are_an_error():
    with pytest.raises(ValueError, match="two lists of survivors"):
        replace(TERMS, colluders=2)
    with pytest.raises(ValueError, match="must be from the 4 survivors to the 6 devices"):
        replace(TERMS, quorum=3)


def test_no_split_of_the_honest_gives_two_lists_t_signatures():
    """All fleets of up to nine devices: the honest sign one list each, colluders both."""
    allowed = 0
    for n, t, c in product(range(2, 10), range(1, 10), range(9)):
        try:
            Terms(n, t, n, c, 3, Ring(1.0, 32))
        except ValueError:
            continue
        allowed += 1
        assert not any(min(first, n - c - first) + c >= t for first in range(n - c + 1))
    assert allowed == sum(2 * t > n + c for n in range(2, 10) for t in range(1, n + 1) for c in range(9))


def test_without_signatures_a_server_could_open_fewer_than_t():
    """Why lists are signed: twelve lists, each of eight, of which six devices are left out eight times.

    Keys of six devices could be had, and the sum of the other six be opened, though every single list has t = 8.
    """
    left_out = [[(4 * k + i) % 6 for i in range(4)] for k in range(12)]
    assert all(len(set(some)) == 4 for some in left_out)
    assert [sum(device in some for some in left_out) for device in range(6)] == [8] * 6


# Keys


def test_a_session_needs_its_own_identity_in_the_roster(fleet):
    mine, other = (keys.public_bytes(fleet[k]._identity) for k in (0, 1))
    with pytest.raises(ValueError, match="does not have this one as device 1"):
        Session(1, fleet[0]._identity, [mine, other])
    with pytest.raises(ValueError, match="same identity"):
        Session(0, fleet[0]._identity, [mine, mine])


@pytest.mark.parametrize("bad", [bytes(32), (1).to_bytes(32, "little"), b"short"])
def test_a_key_of_small_order_or_wrong_size_is_refused(bad):
    """It would make the agreed secret one that anybody knows."""
    with pytest.raises(RefusedError, match="small order or of a wrong size"):
        keys.agreed(keys.mask_key(shamir.random_element()), bad)


@pytest.mark.parametrize("multiple", [0, 1, 2**255])  # of p, and with the bit that X25519 ignores
def test_keys_of_small_order_are_those_that_agree_on_zero(multiple):
    shift = multiple if multiple > 1 else multiple * keys._FIELD
    for u in keys._SMALL:
        if u + shift < 2**255 or multiple > 1:
            public = (u + shift).to_bytes(32, "little")
            assert keys.small_order(public)
            with pytest.raises(RefusedError, match="small order"):
                keys.agreed(keys.mask_key(shamir.random_element()), public)
    for near in (2, 9, keys._FIELD - 2, keys._EIGHTH + 1):
        public = near.to_bytes(32, "little")
        assert not keys.small_order(public)
        assert keys.agreed(keys.mask_key(shamir.random_element()), public)


def test_two_rounds_of_one_session_share_no_secret(fleet):
    first, second = Round(fleet), Round(fleet)
    assert first.clients[0].advert.channel == second.clients[0].advert.channel
    assert first.clients[0].advert.mask_keys != second.clients[0].advert.mask_keys
    assert first.clients[0].advert.seed_hashes != second.clients[0].advert.seed_hashes


def test_a_client_that_is_closed_has_no_secrets_left(game):
    client = game.clients[0]
    client.close()
    assert (client._secrets, client._state) == ({}, {})
    with pytest.raises(RefusedError):
        client.answer(game.server.messages()[0])


def test_devices_that_vanish_in_every_step_at_once(fleet):
    terms = Terms(12, 8, 12, 0, 5, Ring(1.0, 64))
    values = {k: np.full(5, k, dtype=np.uint64) for k in range(12)}
    outcome = rehearse(values, terms, fleet, vanish={0: 0, 1: 1, 2: 2, 3: 3}).outcome
    assert outcome.survivors == tuple(range(2, 12))
    assert np.all(outcome.total == sum(range(2, 12)))
