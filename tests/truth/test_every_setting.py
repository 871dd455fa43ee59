"""Every number that airpool promises or measures, under every setting of a network and a claim: the tables below.

How to read them: a row changes one setting, from a network and a claim before to those after it (settings.py). A column
is one number, by the function that computes it (columns.py). A cell says what happens to the number:

    +  it rises         x  the function refuses the network, in an error that names the setting
    -  it falls         ~  it may do either
    =  it stays         *  two ways are right, here: refuse, or be true

Whatever a cell says, a number that is given must be true: ε is compared with the oracle, errors and certificates with
transmissions of the simulator. `x` also where the function refused the network before the change.

A new field, a new word that a field may be, or a new public function that returns such a number fails the tests at the
end until it has a row, a column, or a line in ELSEWHERE that says where its number comes from.
"""

import ast
import re
from functools import lru_cache

import pytest

from airpool.network import Claim, Network
from tests.sources import MODULES, PACKAGES

from .columns import COLUMNS
from .settings import SETTINGS, asked, every_setting

pytestmark = pytest.mark.usefixtures("few_draws", "few_cells")

# ε: of a device, without trust in the others, of the object, at an eavesdropper, given what was received, over all
# samples of a waveform, in a ledger, of the scores alone, as an inference carries it, and if the server chooses its
# moments by the channel (faded everywhere).
PROMISES = """
                              epsilon local object eaves realised waveform booked scores inferred selected
devices.count                       -     =      +     -        -        -      -      =        -    -
devices.weight                      +     +      +     +        +        +      +      =        +    +
devices.clip_norm                   +     +      +     +        +        +      +      =        +    +
devices.noise_std                   -     -      -     -        -        -      -      =        -    -
devices.participation               -     =      +     -        =        x      -      =        -    -
devices.power_dbm                   =     =      =     =        =        =      =      =        =    =
devices.path_loss_db                =     =      =     =        =        =      =      =        =    =
devices.epsilon                     =     =      =     =        =        =      =      =        =    =
channel.fading=rician               +     =      -     +        =        x      +      =        +    +
channel.fading=rayleigh             +     =      -     +        =        x      +      =        +    +
channel.fading=nakagami             +     =      -     +        =        x      +      =        +    +
channel.fading=log-normal           +     =      -     +        =        x      +      =        +    +
channel.k_factor_db                 =     =      =     +        =        x      =      =        =    =
channel.noise_std                   =     =      =     =        =        =      =      =        =    =
channel.access=orthogonal           +     =      +     +        +        x      +      =        +    +
channel.access=secure               -     =      -     =        =        x      -      =        -    -
channel.power_rule=backoff          +     =      +     ~        =        x      +      =        +    =
channel.power_rule=paper            +     +      +     +        x        =      +      =        +    +
channel.gamma                       =     =      =     =        =        =      =      =        =    +
channel.outage                      +     =      -     -        =        x      +      =        +    =
channel.csi_error_std               +     =      +     +        +        x      +      =        +    +
channel.phase_error_std             =     =      =     =        +        x      =      =        =    =
channel.redrawn                     +     =      +     ~        x        x      +      =        +    =
channel.antennas                    +     =      +     +        *        x      +      =        +    +
channel.antennas, faded             +     =      +     ~        *        x      +      =        +    =
adversary.antennas                  =     =      =     +        =        =      =      =        =    =
scheme=2.1                          +     +      +     +        x        x      +      =        +    +
scheme=2.2                          +     +      +     +        x        x      +      +        +    +
scheme.score                        =     =      =     =        x        x      =      =        =    =
scheme.score_rule                   -     -      =     -        x        x      -      -        -    -
scheme.score_bound                  +     +      =     +        x        x      +      +        +    +
scheme.score_noise_std              -     -      =     -        x        x      -      -        -    -
scheme.threshold                    -     -      =     -        x        x      -      +        -    -
scheme.num_selected                 -     =      =     =        x        x      -      =        -    =
dimension                           =     =      =     =        =        =      =      =        =    =
cover_noise                         -     =      -     -        =        =      -      =        -    -
colluders                           +     =      +     +        +        x      +      =        +    +
dropouts                            +     =      +     +        +        x      +      =        +    +
slots.count                         +     +      +     +        x        +      =      +        +    +
slots.sure                          =     =      =     =        x        =      =      =        =    =
slots.redrawn                       +     =      +     -        x        =      +      -        +    +
slots.abstain                       =     =      =     =        x        =      =      =        =    =
claim.delta                         +     +      +     +        +        +      +      +        +    +
claim.neighbours=replace            +     +      +     +        +        +      +      =        +    +
claim.neighbours=remove             +     +      +     +        x        x      +      x        +    +
claim.inferences                    +     +      +     +        x        +      +      +        +    +
claim.colluding                     +     =      +     +        +        x      =      =        +    +
claim.credit_channel_noise          -     =      -     =        -        =      =      =        -    -
claim.live                          =     =      =     +        =        x      =      =        =    =
claim.per_event                     =     =      =     =        =        =      =      =        =    =
claim.knows_answer                  =     =      =     -        =        =      =      =        =    =
"""

# Mean square error, expected estimate, how often there is no answer, certificates of accuracy from below and (ceiling)
# from above, public noise level, and the error that `evaluate` measures.
ERRORS = """
                              error expected silent halves ball ceiling chebyshev level measured
devices.count                     +        +      -      +    +       +         +     +        +
devices.weight                    +        +      =      +    +       +         +     +        +
devices.clip_norm                 +        +      =      +    +       +         +     +        +
devices.noise_std                 +        =      =      -    -       -         -     +        +
devices.participation             +        +      -      +    +       +         +     +        +
devices.power_dbm                 +        =      =      -    -       -         -     +        +
devices.path_loss_db              +        =      =      -    -       -         -     +        +
devices.epsilon                   =        =      =      =    =       =         =     =        =
channel.fading=rician             +        -      +      -    -       -         -     -        +
channel.fading=rayleigh           +        -      +      -    -       -         -     -        +
channel.fading=nakagami           +        -      +      -    -       -         -     -        +
channel.fading=log-normal         +        -      +      -    -       -         -     -        +
channel.k_factor_db               +        =      =      -    -       -         -     +        +
channel.noise_std                 +        =      =      -    -       -         -     +        +
channel.access=orthogonal         +        =      =      -    -       -         -     +        +
channel.access=secure             +        =      -      -    -       -         +     +        +
channel.power_rule=backoff        -        +      -      x    x       x         +     +        -
channel.power_rule=paper          x        x      =      x    x       x         x     =        ~
channel.gamma                     +        =      =      -    -       -         -     +        +
channel.outage                    +        -      +      -    -       -         -     -        +
channel.csi_error_std             +        -      +      x    x       x         -     +        +
channel.phase_error_std           +        -      =      x    x       x         -     =        +
channel.redrawn                   =        =      =      =    =       =         =     =        =
channel.antennas                  =        =      =      =    =       =         =     =        =
channel.antennas, faded           *        *      *      *    *       *         *     ~        ~
adversary.antennas                =        =      =      =    =       =         =     =        =
scheme=2.1                        x        x      x      x    x       x         x     -        +
scheme=2.2                        x        x      x      x    x       x         x     -        -
scheme.score                      x        x      x      x    x       x         x     =        =
scheme.score_rule                 x        x      x      x    x       x         x     =        -
scheme.score_bound                x        x      x      x    x       x         x     =        =
scheme.score_noise_std            x        x      x      x    x       x         x     =        =
scheme.threshold                  x        x      x      x    x       x         x     =        -
scheme.num_selected               x        x      x      x    x       x         x     +        +
dimension                         +        -      =      -    -       +         -     +        +
cover_noise                       +        =      -      -    -       -         +     +        +
colluders                         =        =      =      =    =       =         =     =        =
dropouts                          =        =      =      =    =       =         =     =        =
slots.count                       x        x      x      x    x       x         x     x        -
slots.sure                        x        x      x      x    x       x         x     x        -
slots.redrawn                     x        x      x      x    x       x         x     x        +
slots.abstain                     x        x      x      x    x       x         x     x        =
claim.delta                       =        =      =      =    =       =         =     =        =
claim.neighbours=replace          =        =      =      =    =       =         =     =        =
claim.neighbours=remove           =        =      =      =    =       =         =     =        =
claim.inferences                  =        =      =      =    =       =         =     =        =
claim.colluding                   =        =      =      =    =       =         =     =        =
claim.credit_channel_noise        =        =      =      =    =       =         =     =        =
claim.live                        =        =      =      =    =       =         =     =        =
claim.per_event                   =        =      =      =    =       =         =     =        =
claim.knows_answer                =        =      =      =    =       =         =     =        =
"""

# Columns that compute a whole report for every cell: minutes on a busy machine.
SLOW = {"inferred", "measured"}

# Public functions of a network whose number is one of the columns', or no promise: where it comes from.
ELSEWHERE = {
    "answered": "`guarantee` of a question",
    "accuracy_part": "calls evaluate, for the page (tests/web/test_answers.py)",
    "at_the_eavesdropper": "part of the column `eaves`",
    "audit": "attacks what `guarantee` claims (tests/audit)",
    "audited": "attacks what `guarantee` claims (tests/audit)",
    "budgets_of": "limits that a device was given, no number of a network",
    "calibrate": "searches for the noise at which `guarantee` meets a target (tests/account/test_calibrate.py)",
    "claimed_mu": "B of the cap, which an audit attacks (tests/audit/test_adaptive.py)",
    "design": "weights or clip norms at which `guarantee` meets targets, by the least `error` (tests/design)",
    "designed": "calls design and calibrate",
    "device_epsilon": "the column `epsilon`, without the rest of the report",
    "held_out": "objects to evaluate with, no number",
    "error_objects": "a number of objects",
    "error_part": "the column `error`, for the page (tests/web/test_answers.py)",
    "fewest_devices": "calls plan",
    "infer": "calls infer_features",
    "infer_encoded": "calls infer_features",
    "inference": "a program as text (tests/web/test_scene.py)",
    "inferences_of": "inferences to evaluate with, no number",
    "inferred": "calls infer, for the page (tests/web/test_scene.py)",
    "life_plan": "calls plan's candidates, evaluate and lifetime (tests/plan/test_lifetime.py)",
    "lifetime": "the column `epsilon` of slots up to a budget (tests/account/test_lifetime.py)",
    "live_frame": "carries `guarantee` of live noise, of which it promises the local ε (tests/protocol/test_live.py)",
    "live_report": "`guarantee` of live noise (tests/protocol/test_live.py)",
    "most_inferences": "the column `epsilon` up to a target (tests/account/test_calibrate.py, test_lifetime.py)",
    "mean_epsilon": "calls stream_epsilon: a figure beside the cap (tests/account/test_lifetime.py)",
    "measured": "calls evaluate, for the page (tests/web/test_answers.py)",
    "paper_claim": "the paper's Theorem 1 as printed, which is no promise",
    "plan": "calls calibrate and evaluate",
    "reported": "calls odds_of, for the lines of a report (tests/account/test_odds.py)",
    "require_budget": "refuses where what `total` says exceeds a budget",
    "scaled_error": "the column `error`, for weights to be chosen (tests/design)",
    "smallest_epsilon": "calls plan",
    "with_epsilon": "calls calibrate, for the page (tests/web/test_answers.py)",
    "stream_epsilon": "the column `epsilon` of a number of slots, beside the cap (tests/test_evaluate_slots.py)",
    "waveform_report": "the report that evaluate gives over a waveform: `waveform_epsilon` and the column `local`",
}


def cells(table: str) -> dict[tuple[str, str], str]:
    """(column, row) → what the table says."""
    head, *rows = [line for line in table.splitlines() if line.strip()]
    columns, out = head.split(), {}
    for line in rows:
        name, marks = line[:30].strip(), line[30:].split()
        assert len(marks) == len(columns), f"row {name} has {len(marks)} cells for {len(columns)} columns"
        out |= {(column, name): mark for column, mark in zip(columns, marks, strict=True)}
    return out


CELLS = cells(PROMISES) | cells(ERRORS)


@lru_cache(maxsize=4096)
def number(column: str, network: Network, claim: Claim) -> float | str:
    """The number, or the error's text."""
    try:
        return COLUMNS[column].number(network, claim)
    except ValueError as error:
        return str(error)


def named(row: str, refusal: str) -> bool:
    """Whether a refusal names the setting: the field, or the scheme where all its settings are refused."""
    part, _, name = re.split("[,=]", row, maxsplit=1)[0].rpartition(".")
    return any(word and word in refusal for word in (name, "scheme" if part == "scheme" else ""))


def what_is_wrong(column: str, row: str) -> str:
    """Of one cell, in words."""
    before, after = asked(row)
    first, last, mark = number(column, *before), number(column, *after), CELLS[column, row]
    if isinstance(last, str):
        if mark not in ("x", "*"):
            return f"refused: {last}"
        # A network that was refused before the change is refused by the name of something else.
        return "" if isinstance(first, str) or named(row, last) else f"the refusal does not name {row}: {last}"
    if mark == "x":
        return f"{last:.5g} where the table says that the setting is refused"
    if not isinstance(first, str) and mark in "+-=":
        hair = 1e-6 * min(abs(first), abs(last)) + 1e-12
        moved = "=" if first == last else "+" if last > first + hair else "-" if last < first - hair else "="
        if moved != mark:
            return f"{first:.5g} before and {last:.5g} after, where the table says {mark}"
    return COLUMNS[column].holds(*after, last)


def marked(columns: set[str]) -> list[object]:
    """The rows of some columns; open items may fail."""
    out = []
    for column, row in CELLS:
        if column in columns:
            out.append(pytest.param(column, row, id=f"{column}-{row}"))
    return out


@pytest.mark.parametrize(("column", "row"), marked(set(COLUMNS) - SLOW))
def test_a_setting_is_supported_or_refused_by_name(column, row):
    assert what_is_wrong(column, row) == ""


@pytest.mark.check
@pytest.mark.parametrize(("column", "row"), marked(SLOW))
def test_a_setting_is_supported_or_refused_by_name_in_whole_reports(column, row):
    assert what_is_wrong(column, row) == ""


def test_every_setting_has_a_row():
    assert {row.split(",")[0] for row in SETTINGS} == every_setting()
    assert {row for _, row in CELLS} == set(SETTINGS)
    assert {column for column, _ in CELLS} == set(COLUMNS)


# What makes a public function one of those that must be walked: it takes a network (or what stands for one), and its
# name or its result speaks of ε, errors or accuracy.
TAKES = re.compile(r"Network|Mechanism|Counts|Mixture|Question|Situation")
SPEAKS = re.compile(
    r"epsilon|mse|error|accura|guarantee|report|certif|evaluat|eavesdrop|overheard|spent|total|law|level|chebyshev|ball|"
    r"half_space|ceiling|no_answer|expected|plan|design|audit|calibrat|split|predict|infer|claim|budget"
)
RETURNS = re.compile(r"PrivacyReport|Evaluation|Prediction|Error\b|Mixture|Level|Plan|Design|\w+Claim\b")
# Commands, figures and stories print numbers of the functions below them.
APART = ("cli", "reproduce", "demo")


def public_functions() -> set[str]:
    out = set()
    for path in MODULES:
        if set(path.relative_to(PACKAGES).parts) & set(APART):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            takes = any(TAKES.search(ast.unparse(a.annotation)) for a in every if a.annotation)
            gives = ast.unparse(node.returns) if node.returns else ""
            if takes and (SPEAKS.search(node.name) or RETURNS.search(gives)):
                out.add(node.name)
    return out


def test_every_function_that_returns_such_a_number_is_walked():
    walked = {name for column in COLUMNS.values() for name in column.walks}
    missing = public_functions() - walked - set(ELSEWHERE)
    assert not missing, f"neither a column in columns.py nor a line in ELSEWHERE: {sorted(missing)}"
