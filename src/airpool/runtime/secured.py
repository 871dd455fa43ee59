"""Keys and ledgers of the roles, from the folders that `airpool keys` makes."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from airpool._support.rounding import full, shown
from airpool.network import Network
from airpool.runtime import logs
from airpool.runtime.charge import NotSentError, Spent
from airpool.runtime.keys import credentials as keys
from airpool.runtime.keys import secret
from airpool.runtime.keys.reloaded import Reloaded
from airpool.runtime.keys.secret import KeyFileError
from airpool.runtime.ledger import refused
from airpool.runtime.ledger.backup import content
from airpool.runtime.ledger.booking import LONGEST, Booking
from airpool.runtime.ledger.budget import Budget
from airpool.runtime.ledger.chain import Row
from airpool.runtime.ledger.ledger import Ledger
from airpool.runtime.ledger.mechanism import Mechanism, mechanism
from airpool.runtime.ledger.spending import total
from airpool.runtime.messages import WithdrawalReason
from airpool.runtime.transport import PeerCredentials
from airpool.runtime.under_way import cap

_SHORTEST_TOKEN = 16
_DAY = 86_400.0
_REASONS = {"over budget": WithdrawalReason.BUDGET, "clash": WithdrawalReason.REPEATED}


def credentials(folder: Path, role: str) -> PeerCredentials:
    """Credentials of a role's sockets. The certificate must be that of the role: no role can act as another.

    New keys in the folder are used from the next connection on, unless they are of another identity: those are for the
    process that replaces this one. From 30 days before they expire, a line of the log says so every day.
    """
    warned, identity = -math.inf, keys.identity_of(folder)

    def load() -> PeerCredentials:
        own, trust = keys.load(folder)
        if own.name != role:
            raise KeyFileError(f"{folder} holds the keys of {own.name}, must be those of {role}")
        if keys.identity_of(folder) != identity:
            raise KeyFileError(f"{folder} now holds the keys of a replacement of this {role}: end this process")
        expires = keys.until(own.certificate).timestamp()
        return PeerCredentials(own.ca, own.certificate, own.key, trust.name, expires=expires)

    def newest() -> PeerCredentials:
        nonlocal warned
        found, now = held(), time.monotonic()
        if now - warned >= _DAY and (warning := keys.expiry_warning(role, datetime.fromtimestamp(found.expires, UTC))):
            warned = now
            logs.event("expiry", reason=warning)
        return found

    paths = [folder / name for name in ("tls.crt", "tls.key", "ca.crt")]
    held = Reloaded(load, paths, report=lambda why: logs.event("keys", reason=why))
    return replace(newest(), newest=newest)


def home(folder: Path, device: int) -> Path:
    """The folder of one device: this one, or the one of its name in an authority's folder."""
    return folder if (folder / "tls.crt").exists() else folder / f"device-{device}"


def token(path: Path) -> str:
    """The token that HTTP clients have to show, from a file that its owner alone can read."""
    return checked_token(secret.read(path).decode("utf-8", "surrogateescape"), str(path))


def checked_token(text: str, where: str) -> str:
    """The token of a text; a KeyFileError that names where it is from, never the token, if it is not safe to use."""
    found = text.strip()
    if not found.isascii():
        at = next(k for k, each in enumerate(text) if not each.isascii())
        raise KeyFileError(
            f"{where}: character {at + 1} is not ASCII; a token must be ASCII, such as `openssl rand -hex 32` writes"
        )
    if len(found) < _SHORTEST_TOKEN or not found.isprintable():
        raise KeyFileError(f"{where} must hold a token of at least {_SHORTEST_TOKEN} printable characters, on one line")
    return found


def public_key(path: Path) -> str:
    """The public part of an identity key, hexadecimal."""
    return secret.identity(path).public_key().public_bytes_raw().hex()


class Booked:
    """A charge in a device's own ledger: it outlives restarts, and refuses what its budgets do not cover."""

    def __init__(self, ledger: Ledger, one: Mechanism, scene: str = "") -> None:
        self._ledger, self._one, self._scene = ledger, one, scene
        self._epoch: str | None = None  # the last that was announced
        self.path = ledger.path

    def refusal(self, *, probe: bool = False) -> str | None:
        """The reason why the next inference would be refused; the device is then not ready, which costs no budget."""
        try:
            if probe:
                self._ledger.probe()
            self._ledger.prepare(self._one, scene=self._scene, epoch=self._epoch)
        except refused.SpendingError as why:
            return f"{why.status}: {why}"
        return None

    def covered(self, most: int) -> int:
        try:
            return self._ledger.prepare(self._one, scene=self._scene, epoch=self._epoch, most=most)
        except refused.SpendingError:
            return 0

    def charge(self, inference_id: str, epoch: str = "") -> None:
        self.charge_all([(inference_id, epoch)])

    def charge_all(self, inferences: Sequence[tuple[str, str]]) -> None:
        """Books inferences, each with its epoch, by one write: all of them, or none and NotSentError."""
        self._epoch = inferences[-1][1]
        bookings = [Booking(id, self._one, self._scene, epoch) for id, epoch in inferences]
        try:
            self._ledger.charge_all(bookings, only_new=True)
        except refused.SpendingError as why:
            raise NotSentError(f"{why.status}: {why}", _REASONS.get(why.status, WithdrawalReason.DISK)) from None

    def spending(self) -> Spent | None:
        """ε spent, and the budget for all inferences, read beside the ledger: no charge waits for it."""
        whole = next((each for each in self._ledger.budgets if each.covers_all), None)
        delta, relation = (1e-5, "zero-out") if whole is None else (whole.delta, whole.neighbours)
        try:
            spent = total(content(self.path).counts, delta, relation)
            return Spent(whole and whole.epsilon, spent, delta, relation)
        except (refused.SpendingError, ValueError):
            return None

    def close(self) -> None:
        self._ledger.close()


@dataclass(frozen=True)
class Kept:
    """More about a ledger. head: a file, or a folder with one for each device. seen, accepted: as of Ledger."""

    head: Path | None = None
    scene: str = ""
    seen: Row | None = None
    accepted: tuple[str, ...] = ()


_KEPT = Kept()


def files_of(path: Path, head: Path | None, device: int) -> tuple[Path, Path | None]:
    """The files of one device's ledger and head, where folders with one for each device are given."""
    file = path / f"device-{device}.db" if path.is_dir() else path
    return file, head / f"device-{device}.head" if head is not None and head.is_dir() else head


def require_covered(budgets: Sequence[Budget], network: Network, device: int) -> None:
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
    path: Path, key: Path, network: Network, device: int, budgets: Sequence[Budget], kept: Kept = _KEPT
) -> Booked:
    """The ledger of one device. path: a file, or a folder with one file for each device."""
    if len(kept.scene) > LONGEST:
        raise ValueError(
            f"a scene of {len(kept.scene)} characters must have at most {LONGEST}: every charge would fail"
        )
    one = mechanism(network, device=device)
    file, head = files_of(path, kept.head, device)
    more = {"head": head, "seen": kept.seen, "accepted": kept.accepted}
    try:
        ledger = Ledger(file, key, device=f"device-{device}", budgets=budgets, **more)
    except refused.SpendingError as why:
        raise ValueError(f"{why.status}: {why}") from None
    return Booked(ledger, one, kept.scene)
