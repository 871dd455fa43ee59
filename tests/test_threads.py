"""Small arrays are worked on by one thread, and whoever asked for it leaves the others as they were."""

from threading import Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from airpool import design, evaluate, fit, guarantee
from airpool._support.threads import single_thread
from airpool.account import views
from airpool.evaluation import evaluate as evaluation
from airpool.evaluation.design import clipping, weights
from airpool.models.codecs.codec import matrices
from airpool.models.sensors import fitting
from airpool.network import Network
from airpool_lab.theory import prediction
from airpool_lab.theory.prediction import predict
from airpool_lab.theory.server import LayeredServer


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
    kept = views.in_one_use
    monkeypatch.setattr(views, "in_one_use", lambda *given, **how: seen.append(threads()) or kept(*given, **how))
    with threadpool_limits(2):
        report = guarantee(Network.uniform(num_devices=3, noise_std=0.1))
        assert seen
        at_first = len(seen)
        assert report.epsilon_if_absent
    assert len(seen) > at_first
    assert all(each == {1} for each in seen)


def test_the_library_computes_on_one_thread_wherever_it_is_called(monkeypatch):
    """Fit, evaluate, predict and design: each passes one of these functions."""
    seen: dict[str, set[int]] = {}

    def watched(module, name):
        kept = getattr(module, name)

        def call(*given, **named):
            seen[f"{module.__name__}.{name}"] = threads()
            return kept(*given, **named)

        monkeypatch.setattr(module, name, call)

    for module, name in (
        (fitting, "_accuracy"),
        (evaluation, "inferences_of"),
        (prediction, "level"),
        (weights, "quadratic"),
        (clipping, "largest_clip_norm"),
    ):
        watched(module, name)
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    features = rng.normal(size=(60, 3, 4)) + labels[:, None, None]
    recipe = fitting.FitRecipe(head_steps=2, codec_steps=2, hidden=(0,), alike=True, trials=1)
    with threadpool_limits(2):
        model = fit(features, labels, epsilon=4.0, recipe=recipe)
        net = Network.uniform(num_devices=3, noise_std=0.3, dimension=model.codec().dimension)
        objects = evaluation.held_out(model, net)
        evaluate(objects, net, trials=1)
        latents = objects.latents.double().numpy()
        predict(
            net, latents, objects.labels.numpy(), server=lambda level: LayeredServer(matrices(model.codec(), level))
        )
        for knob in ("weight", "clip"):
            design(net, latents, knob=knob, epsilon=4.0)
        assert threads() != {1}
    assert len(seen) == 5
    assert set().union(*seen.values()) == {1}
