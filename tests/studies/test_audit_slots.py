"""The audit of slots as the docs print it: every bound below its claim, every fault caught."""

from pathlib import Path

from studies.audit_slots import FAULTS, told
from studies.tables import RESULTS, rows

DOCS = Path(__file__).parents[2] / "docs"


def test_the_docs_print_the_tables_of_the_study():
    page = (DOCS / "howto" / "slots.md").read_text("utf-8").splitlines()
    assert [line for line in told() if line and line not in page] == []


def test_no_strategy_refutes_the_cap_and_gaussian_ones_come_close():
    found = rows(RESULTS / "audit-slots.json")
    assert not any(row["violated"] for row in found)
    gaussian = rows(RESULTS / "audit-slots.json", kind="gaussian")
    assert len(gaussian) >= 10
    assert all(0.9 * row["claimed_mu"] < row["mu_lower"] < row["claimed_mu"] for row in gaussian)


def test_every_fault_in_one_slot_of_four_is_caught():
    for fault in FAULTS:
        most = rows(RESULTS / "audit-slots-faults.json", fault=fault)[-1]
        assert most["caught"] == most["games"]
