"""Plans in words and tables, for the command and for a notebook. What is promised is rounded up; figures are not."""

from typing import Any

from airpool._support import figures, notebook
from airpool._support.rounding import full, shown
from airpool.account.words import because
from airpool.evaluation.plan.lifetime import LifePlan
from airpool.evaluation.plan.search import Option, Plan

RUNNERS_UP = ("runners-up", "accuracy", "runs", "energy")
_DRAWN = 6  # options in a drawing


def best_in_words(found: Plan) -> tuple[str, str, str, str]:
    """The best option, its accuracy, its ε, and what an inference costs."""
    best, report = found.best, found.best.evaluation.report
    why = [because(report.reasons, name) for name in ("epsilon", "epsilon_local", "epsilon_object")]
    net, run = best.network, best.evaluation
    low, high = best.interval
    return (
        best.candidate.words,
        f"accuracy {best.accuracy:.3f}, {low:.3f} to {high:.3f} on as many other objects (95 %, validation, "
        f"{run.objects} objects, {run.trials} runs)",
        f"ε = {shown(report.worst)}{why[0]} (local {shown(float(max(report.epsilon_local)))}{why[1]}, object "
        f"{shown(report.epsilon_object)}{why[2]}) at δ = {full(net.delta)}, {net.neighbours}, {net.inferences} "
        f"inference(s), {net.devices.count} devices",
        f"{run.channel_uses} channel uses and {run.energy:.4g} mW·uses an inference"
        if run.bytes_per_device is None
        else "{:,} bytes sent and {:,} received by each device an inference".format(*run.bytes_per_device),
    )


def runners_up(found: Plan) -> list[tuple[str, ...]]:
    """Rows below `RUNNERS_UP`: the other options, the paper's network, and what cannot be built."""
    rows = [
        (
            ("the paper's network: " if option is found.paper else "") + option.candidate.words,
            f"{option.accuracy:.3f}",
            str(option.evaluation.trials),
            f"{option.evaluation.energy:.3g}",
        )
        for option in (*found.others, *([found.paper] if found.paper else []))
    ]
    return rows + [(f"{candidate.words}: {why}", "–", "", "") for candidate, why in found.impossible]


def plan_html(found: Plan) -> str:
    title, *lines = best_in_words(found)
    options = [found.best, *found.others][:_DRAWN] + ([found.paper] if found.paper else [])
    drawn = notebook.dots(
        [_dot(each, found) for each in options], ends=(0.0, 1.0), axis="accuracy on validation objects"
    )
    table = notebook.rows_of(RUNNERS_UP, runners_up(found))
    notes = [found.cameras] if found.cameras else []
    return notebook.shown(f"Plan: {title}", notebook.sentences(lines), drawn, table, notebook.sentences(notes))


def _dot(option: Option, found: Plan) -> notebook.Dot:
    name = "the paper's network" if option is found.paper else option.candidate.words
    colour = figures.PAPER if option is found.paper else figures.OURS
    short = name if len(name) <= 30 else f"{name[:29]}…"
    return notebook.Dot(short, option.accuracy, f"{option.accuracy:.3f}", option.interval, colour=colour)


def life_in_words(found: LifePlan) -> tuple[str, str, str]:
    """Three sentences: the way to take, the promise, and figures that nobody is promised."""
    best = found.best
    row, slots, run = best.row(), best.network.slots, best.option.evaluation
    several, cap, radio = slots.count > 1, shown(row["cap_epsilon"]), row["mean_bytes"] is None
    how = f"up to {slots.count} slots, until sure = {slots.sure:.4f}" if several else "one slot"
    low, high = best.option.interval
    cost = (
        f"{row['mean_channel_uses']:,.0f} channel uses and {row['mean_energy']:,.4g} mW·uses"
        if radio
        else "{:,} bytes sent and {:,} received by each device".format(*row["mean_bytes"])
    )
    return (
        f"Take {how}, cap ε = {cap}.",
        f"Promised: ε ≤ {cap} for an inference and ε ≤ {full(found.wanted.budget)} in all, {row['budget_slots']:,} "
        f"slots and at least {row['inferences_at_least']:,} inferences"
        + (", if every one goes to the cap." if several else "."),
        f"Figures, promised to nobody: accuracy {row['accuracy']:.3f}, {low:.3f} to {high:.3f} on as many other "
        f"objects (95 %, validation, {run.objects} objects, {run.trials} runs); on average {row['mean_slots']:.2f} "
        f"slots, {cost} an inference, and {row['inferences_on_average']:,.0f} inferences.",
    )


def ways(found: LifePlan) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and a row for each way, the best first."""
    radio = found.best.row()["mean_bytes"] is None
    header = ("cap ε promised", "slots at\u00a0most", "sure", "accuracy", "slots mean")
    header += ("uses mean", "energy mean") if radio else ("bytes out", "bytes in")
    header += ("lasts at\u00a0least", "lasts on\u00a0average")

    def cells(each: dict[str, Any]) -> tuple[str, ...]:
        sure = "" if each["sure"] is None else f"{each['sure']:.4f}"
        costs = (f"{each['mean_channel_uses']:.0f}", f"{each['mean_energy']:.3g}")
        costs = costs if radio else tuple(f"{number:,}" for number in each["mean_bytes"])
        lasts = (f"{each['inferences_at_least']:,}", f"{each['inferences_on_average']:,.0f}")
        first = (shown(each["cap_epsilon"]), str(each["slots"]), sure, f"{each['accuracy']:.3f}")
        return (*first, f"{each['mean_slots']:.2f}", *costs, *lasts)

    return header, [cells(each.row()) for each in (found.best, *found.others)]


def life_html(found: LifePlan) -> str:
    title, *lines = life_in_words(found)
    return notebook.shown(title, notebook.sentences(lines), notebook.rows_of(*ways(found)))
