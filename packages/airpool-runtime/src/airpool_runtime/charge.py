"""Charging a device for a slot, before coin, score and feature exist: in memory, or in its own ledger with budgets.

An inference of one slot is charged by its id, one of several slot by slot (under_way.py).
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from airpool._support.errors import AirpoolError
from airpool._support.rounding import full, shown
from airpool.network import Claim, Network
from airpool_runtime import logs, secured
from airpool_runtime.ledger.backup import content, faults
from airpool_runtime.ledger.budget import LONGEST, Booking, Budget
from airpool_runtime.ledger.chain import Row
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import Mechanism, mechanism
from airpool_runtime.ledger.refused import SpendingError
from airpool_runtime.ledger.spending import total
from airpool_runtime.messages import Balance, WithdrawalReason
from airpool_runtime.options import LEDGER, DeviceOptions, flags_of
from airpool_runtime.under_way import cap

NOT_ALL_SLOTS = "the budget does not cover all slots of another inference"


class NotSentError(AirpoolError):
    """The device does not take part; the text says why, in its own log. reason: the part of it that others learn."""

    def __init__(self, text: str, reason: WithdrawalReason = WithdrawalReason.INTERNAL) -> None:
        super().__init__(text)
        self.reason = reason


class Charge(ABC):
    """Books slots, each by its id and an epoch of the channel; "": in one of its own. By default it has no limit."""

    @abstractmethod
    def charge_all(self, inferences: Sequence[tuple[str, str]]) -> None:
        """Books them together: all, or none and NotSentError, where nothing is left, and where an id was booked before:
        one charge pays for one transmission."""

    def refusal(self, *, probe: bool = False) -> str | None:
        """The reason why the next inference would be refused; None if it would not.

        probe: also writes where a charge writes, since the last one failed.
        """
        return None

    def covered(self, most: int) -> int:
        """The number of next inferences that the budget covers, up to `most`."""
        return most if self.refusal() is None else 0

    def spending(self) -> Balance | None:
        """ε spent, and the budget for all inferences; None where nothing is known of it, or cannot be read now."""
        return None


def not_covered(charge: Charge, *, probe: bool = False) -> NotSentError:
    """The refusal of an inference: the budget does not cover all of its slots, or the ledger fails."""
    why = charge.refusal(probe=probe)
    if why is None or why.startswith("over budget"):
        return NotSentError(why or NOT_ALL_SLOTS, WithdrawalReason.BUDGET)
    return NotSentError(why, WithdrawalReason.DISK)


_REMEMBERED = 4096  # ids
_REASONS = {"over budget": WithdrawalReason.BUDGET, "clash": WithdrawalReason.REPEATED}


class Counted(Charge):
    """Counts in memory, without a limit: a restart forgets.

    An id that is older than the last 4,096 is not remembered, and is charged again.
    """

    def __init__(self) -> None:
        self.spent = 0
        self._booked: OrderedDict[str, None] = OrderedDict()

    def charge_all(self, inferences: Sequence[tuple[str, str]]) -> None:
        names = [id for id, _ in inferences]
        if len({*names} - self._booked.keys()) < len(names):
            raise NotSentError("this inference was announced before", WithdrawalReason.REPEATED)
        self.spent += len(names)
        self._booked.update(dict.fromkeys(names))
        while len(self._booked) > _REMEMBERED:
            self._booked.popitem(last=False)

    def close(self) -> None:
        """Nothing is open."""


class Booked(Charge):
    """A charge in a device's own ledger: it outlives restarts, and refuses what its budgets do not cover."""

    def __init__(self, ledger: Ledger, one: Mechanism, scene: str = "") -> None:
        self._ledger, self._one, self._scene = ledger, one, scene
        self._epoch: str | None = None  # the last that was announced
        self.path = ledger.path

    def refusal(self, *, probe: bool = False) -> str | None:
        try:
            if probe:
                self._ledger.probe()
            self._ledger.prepare(self._one, scene=self._scene, epoch=self._epoch)
        except SpendingError as why:
            return f"{why.status}: {why}"
        return None

    def covered(self, most: int) -> int:
        try:
            return self._ledger.prepare(self._one, scene=self._scene, epoch=self._epoch, most=most)
        except SpendingError:
            return 0

    def charge_all(self, inferences: Sequence[tuple[str, str]]) -> None:
        self._epoch = inferences[-1][1]
        bookings = [Booking(id, self._one, self._scene, epoch) for id, epoch in inferences]
        try:
            self._ledger.charge_all(bookings, only_new=True)
        except SpendingError as why:
            raise NotSentError(f"{why.status}: {why}", _REASONS.get(why.status, WithdrawalReason.DISK)) from None

    def spending(self) -> Balance | None:
        """Read beside the ledger: no charge waits for it."""
        whole = next((each for each in self._ledger.budgets if each.covers_all), None)
        delta, relation = (1e-5, "zero-out") if whole is None else (whole.delta, whole.neighbours)
        try:
            spent = total(content(self.path).counts, delta, relation)
            return Balance(spent, whole and whole.epsilon, delta, relation)
        except (SpendingError, ValueError):
            return None

    def close(self) -> None:
        self._ledger.close()


def files_of(path: Path, head: Path | None, device: int) -> tuple[Path, Path | None]:
    """The files of one device's ledger and head, where folders with one for each device are given."""
    file = path / f"device-{device}.db" if path.is_dir() else path
    return file, head / f"device-{device}.head" if head is not None and head.is_dir() else head


def require_all_covered(budgets: Sequence[Budget], network: Network, device: int) -> None:
    """Raises a ValueError where a budget does not cover one inference, or its event: the device would never send."""
    rows = cap(network.slots)
    for each in budgets:
        cost = total({mechanism(network, device=device): each.event or rows}, each.delta, each.neighbours)
        if cost <= each.epsilon:
            continue
        costs = f"costs device {device} ε = {shown(cost)}, more than its budget of {full(each.epsilon)}"
        if each.event is not None:
            inferences = each.event // rows
            advice = f"calibrate the network with --live --per-event {inferences}"
            raise ValueError(f"an event of {inferences} inferences {costs}: {advice}")
        slots = f" of up to {rows} slots" if rows > 1 else ""
        raise ValueError(f"one inference{slots} {costs} for {each.covers}: allow more, or add more noise")


def booked(
    path: Path,
    key: Path,
    network: Network,
    device: int,
    budgets: Sequence[Budget],
    *,
    head: Path | None = None,
    scene: str = "",
    seen: Row | None = None,
    accepted: Sequence[str] = (),
) -> Booked:
    """The ledger of one device. path, head: a file, or a folder with one file for each device."""
    if len(scene) > LONGEST:
        raise ValueError(f"a scene of {len(scene)} characters must have at most {LONGEST}: every charge would fail")
    one, (file, head) = mechanism(network, device=device), files_of(path, head, device)
    try:
        ledger = Ledger(file, key, device=f"device-{device}", budgets=budgets, head=head, seen=seen, accepted=accepted)
    except SpendingError as why:
        raise ValueError(f"{why.status}: {why}") from None
    return Booked(ledger, one, scene)


_DAY = 86_400.0


def budgets_of(options: DeviceOptions, network: Network, claim: Claim) -> list[Budget]:
    """The budgets of a ledger, for the claim's δ and neighbours."""
    if (options.window_epsilon is None) != (options.window_seconds is None):
        raise ValueError("--window-epsilon and --window-seconds go together")
    if options.scene_epsilon is not None and not options.scene:
        raise ValueError("--scene-epsilon needs --scene, the name of the scene")
    if (options.event_epsilon is None) != (options.event_inferences is None):
        raise ValueError("--event-epsilon and --event-inferences go together")
    rows = None if options.event_inferences is None else options.event_inferences * cap(network.slots)

    def budget(
        epsilon: float | None, window: float | None = None, *, event: int | None = None, scene: bool = False
    ) -> list[Budget]:
        return [] if epsilon is None else [Budget(epsilon, claim.delta, scene, window, claim.neighbours, event)]

    return [
        *budget(options.budget_epsilon),
        *budget(options.event_epsilon, event=rows),
        *budget(options.day_epsilon, _DAY),
        *budget(options.window_epsilon, options.window_seconds),
        *budget(options.scene_epsilon, scene=True),
    ]


def key_of(options: DeviceOptions, k: int) -> Path:
    return options.key or secured.home(options.keys or Path(), k) / "identity.key"


def require_consistent(options: DeviceOptions, network: Network, claim: Claim, *, several: bool) -> None:
    """Raises a ValueError where options of the charge do not go together. several: a process hosts several devices."""
    if options.ledger is None:
        for name, flag in flags_of(DeviceOptions).items():
            if flag.panel == LEDGER and getattr(options, name) not in (None, "", ()):
                raise ValueError(f"--{name.replace('_', '-')} needs --ledger: what was spent must outlive the process")
        return
    budgets_of(options, network, claim)
    if claim.colluding:
        raise ValueError(
            f"claim.colluding={list(claim.colluding)} must be empty with --ledger, which counts on none by its index: "
            "write their number, colluders, into the network file"
        )
    if options.simulate is not None:
        raise ValueError("--ledger does not go with --simulate, whose noise gives no privacy")
    if several and not options.ledger.is_dir():
        raise ValueError(f"--ledger {options.ledger} must be a folder where a process hosts several devices")
    if several and options.key is not None:
        raise ValueError("--key is for one device; give --keys, a folder with one for each")
    if options.key is None and options.keys is None:
        raise ValueError("--ledger needs --key, or --keys with an identity.key: `airpool keys` makes them")


def require_covered(options: DeviceOptions, network: Network, claim: Claim, indices: Sequence[int]) -> None:
    """Raises a ValueError where a budget can never cover one inference of one of these devices."""
    if options.ledger is None:
        return
    budgets = budgets_of(options, network, claim)
    columns = [each for each in vars(network.devices).values() if isinstance(each, tuple)]
    unlike = {tuple(column[k] for column in columns): k for k in reversed(indices)}
    for k in sorted(unlike.values()):  # the first of those that are alike
        require_all_covered(budgets, network, k)


def charge_of(
    options: DeviceOptions, k: int, network: Network, claim: Claim, seen: Row | None = None
) -> Booked | Counted:
    """Charge of device k, to be closed. seen: the newest row that the fleet has of the device."""
    if options.ledger is None:
        return Counted()
    budgets = budgets_of(options, network, claim)
    require_all_covered([each for each in budgets if each.event is not None], network, k)
    for each in budgets:
        promised = f"ε ≤ {full(each.epsilon)} for {each.covers} and {each.neighbours} neighbours, if {each.assumes}"
        logs.event("budget", device=k, reason=promised)
    return booked(
        options.ledger,
        key_of(options, k),
        network,
        k,
        budgets,
        head=options.head,
        scene=options.scene,
        seen=seen,
        accepted=options.accept_plugin,
    )


def check_ledger(options: DeviceOptions, k: int) -> None:
    """Raises a ValueError where the ledger of device k would be refused; nothing is written or made."""
    key = key_of(options, k)
    public = secured.public_key(key)
    assert options.ledger is not None
    file, head = files_of(options.ledger, options.head, k)
    head = head or key.with_suffix(".head")
    if not file.exists():
        if head.exists():
            raise ValueError(f"{file} is missing, but rows were written to it: {head}")
        if not file.parent.is_dir():
            raise ValueError(f"the folder of --ledger {file} does not exist")
        return
    try:
        for wrong in faults(content(file), head=head, key=public):
            raise ValueError(f"{file}: {wrong}")
    except SpendingError as why:
        raise ValueError(f"{why.status}: {why}") from None
