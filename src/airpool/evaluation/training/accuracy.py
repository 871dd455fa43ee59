"""Accuracy of a codec through each network it was trained for, as its card tells it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from airpool.account.report import PrivacyReport
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.models.codecs.codec import Codec
from airpool.models.codecs.runs import described
from airpool.network import Network

_COLUMNS = ("objects", "accuracy_mean", "accuracy_std", "class_mean")


def measured(
    codec: Codec,
    sent: Mapping[str, tuple[Tensor, Tensor] | None],
    reports: Sequence[PrivacyReport],
    *,
    trials: int,
    advance: Callable[[int], None],
) -> dict[str, Any]:
    """Accuracy of latents and labels by split, in every network, and at the end without any noise."""

    def row(net: Network, **how: Any) -> dict[str, Any]:
        found = {
            which: part and evaluate(EncodedObjects(*part, codec.server), net, **how) for which, part in sent.items()
        }
        advance(1)
        return {which: each and {name: getattr(each, name) for name in _COLUMNS} for which, each in found.items()}

    rows = [row(report.network, trials=trials, report=report) for report in reports]
    rows.append(row(reports[0].network, trials=1, instead="centralised"))
    return {"validation": rows[-1]["validation"]["accuracy_mean"], "test": None, "air": rows}


def air(reports: Sequence[PrivacyReport], *, trials: int) -> dict[str, Any]:
    """The card's entry on the networks."""
    networks = [
        {"target": d.column("epsilon")[0], "epsilon": report.worst, "noise_std": max(d.column("noise_std"))}
        for report in reports
        for d in (report.network.devices,)
    ]
    return {"channel": described(reports[0].network), "trials": trials, "networks": networks}
