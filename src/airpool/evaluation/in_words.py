"""An evaluation in words: what it measured beside what is promised, for the command and for a notebook."""

from collections.abc import Mapping
from typing import Any

from airpool._support import figures, notebook
from airpool._support.rounding import full, shown, spread
from airpool.account.words import because


def facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Names and values of a record (`Evaluation.record`) with the report's `reasons`; every ε is rounded up."""

    def worst(name: str) -> str:
        """Largest ε, rounded up, so that the printed ε is a valid bound too; the reason of an infinite one."""
        values = record[name] if isinstance(record[name], list) else [record[name]]
        return shown(max(map(float, values))) + because(record["reasons"], name)

    low, high = record["accuracy_ci"]
    std = record["accuracy_std"]
    # Two trials that agree by chance say nothing about the others.
    over = "" if not std else f"; standard deviation over trials {spread(std)}"
    rows = {
        "accuracy": f"{record['accuracy_mean']:.4f} (95 % interval {low:.4f} to {high:.4f}{over})",
        "mean over classes": f"{record['class_mean']:.4f}",
        "no answer": f"{record['no_answer']:.4%}",
        "ε of the worst device": f"{worst('epsilon')}  ({record['neighbours']}, δ = {full(record['delta'])})",
        "ε, no other device trusted": worst("epsilon_local"),
        "ε of the object": worst("epsilon_object"),
        "the paper's claim": worst("epsilon_paper"),
        "mean square error": f"{record['mse']:.4g}",
        **_costs(record),
        **_slots(record),
        "objects × trials": f"{record['objects']} × {record['trials']}, seed {record['seed']}",
    }
    if record["vote_accuracy"] is not None:
        error = record["against_vote_error"]
        error = "" if error is None else f", standard error {spread(error)}"
        beside = f"{record['vote_accuracy']:.4f} on the same noise; difference {record['against_vote']:+z.4f}{error}"
        rows = {"accuracy": rows.pop("accuracy"), "accuracy of the vote": beside, **rows}
    return rows


def html(record: Mapping[str, Any]) -> str:
    """The same as a table, and the accuracy with its interval as a drawing."""
    accuracy = record["accuracy_mean"]
    rows = [notebook.Dot("accuracy, 95 % interval", accuracy, f"{accuracy:.4f}", tuple(record["accuracy_ci"]))]
    if (vote := record["vote_accuracy"]) is not None:
        rows.append(notebook.Dot("vote, the same noise", vote, f"{vote:.4f}", colour=figures.GREY))
    title = f"Accuracy of scheme {record['scheme']}, {record['access']} access"
    return notebook.shown(title, notebook.dots(rows, ends=(0.0, 1.0)), notebook.facts(facts(record).items()))


def _costs(record: Mapping[str, Any]) -> dict[str, str]:
    """Cost of an inference on the air, or over a network; with several slots, the mean beside the most."""
    uses, used = record["channel_uses"], record.get("slots")
    if record["bytes_per_device"] is not None:
        sent, received = record["bytes_per_device"]
        return {"traffic of a device": f"{sent:,} bytes sent, {received:,} received"}
    channel = str(uses) if used is None else f"{uses * used['mean']:.1f} on average, {uses * used['cap']} at most"
    return {"energy": f"{record['energy']:.4g} mW · channel uses", "channel uses": channel}


def _slots(record: Mapping[str, Any]) -> dict[str, str]:
    """Slots that inferences used, beside the cap that is promised."""
    if (used := record.get("slots")) is None:
        return {}
    spent = f"ε = {shown(float(used['mean_epsilon']))}: a mean after the fact, promised to no inference"
    return {"slots": f"{used['mean']:.2f} on average of at most {used['cap']}", "spent on average": spent}
