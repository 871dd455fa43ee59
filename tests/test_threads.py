"""Small arrays are worked on by one thread, and whoever asked for it leaves the others as they were."""

from threading import Thread

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from airpool import guarantee
from airpool._support.threads import single_thread
from airpool.account import guarantee as account
from airpool.network import Network


def threads() -> set[int]:
    return {int(library["num_threads"]) for library in threadpool_info()}


def test_the_limit_ends_with_the_last_of_those_who_asked_for_it():
    with threadpool_limits(2):
        before = threads()
        first, second = single_thread(), single_thread()
        first.__enter__()
        second.__enter__()
        assert threads() == {1}
        first.__exit__(None, None, None)  # not the one that came last
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == before


def test_an_error_inside_and_another_thread_leave_nothing_behind():
    with threadpool_limits(2):
        before = threads()
        with pytest.raises(ValueError, match="no"), single_thread():
            raise ValueError("no")
        assert threads() == before

        def enter() -> None:
            with single_thread():
                pass

        others = [Thread(target=enter) for _ in range(8)]
        for each in others:
            each.start()
        for each in others:
            each.join()
        assert threads() == before


def test_a_report_is_computed_on_one_thread(monkeypatch):
    seen: list[set[int]] = []
    kept = account.game
    monkeypatch.setattr(account, "game", lambda *given: seen.append(threads()) or kept(*given))
    with threadpool_limits(2):
        guarantee(Network.uniform(num_devices=3, noise_std=0.1))
    assert seen
    assert all(each == {1} for each in seen)
