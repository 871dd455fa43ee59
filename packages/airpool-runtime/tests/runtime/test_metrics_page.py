"""The page of metrics and the dashboard name what the endpoints really say, and nothing else."""

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from airpool_runtime.charge import Counted
from airpool_runtime.messages import Balance
from airpool_runtime.metrics import Metrics, RoleMetrics
from airpool_runtime.seeing import Condition

from .systems import network, small

ROOT = Path(__file__).resolve().parents[4]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "airpool.json").read_text("utf-8"))


class Kept(Counted):
    def spending(self):
        return Balance(2.0, 8.0, 1e-5, "zero-out")


def families(text):
    """Name, type and labels of each family that an endpoint shows."""
    found = {}
    for family in text_string_to_metric_families(text):
        if not family.name.endswith("_created"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            found[name] = (family.type, frozenset(labels))
    return found


def of_server():
    async def play():
        async with small(network(), running=(0, 1, 2), quorum=4, patience=0.05) as system:
            fleet = SimpleNamespace(status=SimpleNamespace(up=True, queued=0, rows=3, postponed=0))
            metrics = Metrics(system.server, cast("Any", fleet))
            await system.infer()
            system.air._standing.failed(1, "it withdrew (disk)", at_once=True)
            return metrics.text(await system.air.status()).decode()

    return families(asyncio.run(play()))


def of_role():
    async def play():
        metrics = RoleMetrics("device", {"device-0": 4e9})
        metrics.observe("refused", {"reason": "over budget"})
        metrics.observe("slot", {"seconds": 0.1})
        metrics.watch_budgets([cast("Any", SimpleNamespace(charge=Kept(), index=0))])
        metrics._frame.labels("0").set(1.0)
        broken = Condition(0)
        broken.failed("gone", "unplugged")
        return (await metrics.text()).decode()

    return families(asyncio.run(play()))


def documented(title):
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    part = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", part, re.MULTILINE)
    return {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


@pytest.mark.parametrize(("title", "found"), [("Of the server", of_server), ("Of every role", of_role)])
def test_every_metric_is_documented_with_its_type_and_labels(title, found):
    assert documented(title) == found()


def queries():
    panels = [each for each in DASHBOARD["panels"] if each["type"] != "row"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*asked, *(each["definition"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query")]


def test_every_query_of_the_dashboard_names_a_metric_and_its_labels():
    known = documented("Of the server") | documented("Of every role")
    samples = {name: labels for name, (kind, labels) in known.items() if kind != "histogram"}
    for name, (kind, labels) in known.items():
        if kind == "histogram":
            samples |= {
                f"{name}_{part}": labels | ({"le"} if part == "bucket" else set())
                for part in ("bucket", "sum", "count")
            }
    named = set()
    for query in queries():
        names = re.findall(r"\bairpool_\w+", query)
        assert names, query
        assert set(names) <= samples.keys(), query
        grouped = {each.strip() for group in re.findall(r"\bby \(([^)]*)\)", query) for each in group.split(",")}
        assert grouped <= {label for name in names for label in samples[name]}, query
        named |= set(names)
    assert {name.removesuffix("_bucket") for name in named} == known.keys()  # nothing is left out


def test_the_dashboard_goes_with_any_data_source_and_has_no_overlaps():
    assert {each["name"] for each in DASHBOARD["templating"]["list"]} == {"datasource", "job"}
    sources = re.findall(r'"uid": ?"([^"]*)"', json.dumps(DASHBOARD["panels"]))
    assert set(sources) == {"${datasource}"}
    panels = DASHBOARD["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    cells = [
        (x, y)
        for at in (each["gridPos"] for each in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert all(each["description"] for each in panels if each["type"] != "row")
