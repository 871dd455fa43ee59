"""A device's ledger: charged at the announcement, before coin, score and feature exist; what it refuses is not sent.

    ledger = Ledger("ledger.db", "keys/device-3/identity.key", budgets=[Budget(8.0, 1e-5)])
    if ledger.charge(announcement_id, mechanism(network, device=3, quorum=10)).new:
        ...  # transmit, once

`charge` returns when the row is on the disk, in the ledger and in the head. Whatever is wrong raises SpendingError:
over budget, a full disk, a file that was changed, restored or deleted. A device that then stays silent has never sent
more than the ledger says, killed at whatever point. One instance may be used by many threads, and several processes may
have one ledger; after a fork it has to be opened again.
"""

import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from airpool.network import Neighbours
from airpool_runtime.keys import secret
from airpool_runtime.ledger import chain, clock, head
from airpool_runtime.ledger.budget import (
    Allowance,
    Booking,
    Budget,
    Charged,
    Tally,
    keep_budgets,
    most_covered,
    require_budget,
)
from airpool_runtime.ledger.chain import Origin, Row, Tip
from airpool_runtime.ledger.clock import Moment
from airpool_runtime.ledger.head import Head
from airpool_runtime.ledger.mechanism import Mechanism, UsedPlugin, parse_all, require_accepted
from airpool_runtime.ledger.refused import SpendingError, because
from airpool_runtime.ledger.spending import total
from airpool_runtime.ledger.store import Store

WAIT_S = 5.0
_HELD_S = 0.25


@contextmanager
def locked(path: Path, flags: int, *, held_s: float | None = None) -> Iterator[None]:
    """Holds a lock that ends with the process; waits up to 5 s while others take turns.

    held_s: how long one holder is waited for (default: a quarter of a second). The devices of a process share a thread:
    a ledger that is held must not stop the others.
    """
    patience = _HELD_S if held_s is None else held_s
    file = os.open(path, flags, 0o600)
    try:
        start = turn = time.monotonic()
        stamp = os.fstat(file).st_mtime_ns
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            now, seen = time.monotonic(), os.fstat(file).st_mtime_ns
            if seen != stamp:
                stamp, turn = seen, now
            if now - turn > patience or now - start > WAIT_S:
                raise SpendingError("busy", f"{path} is held by another process for more than {now - turn:.2g} s")
            time.sleep(0.001)
        with suppress(OSError):  # of another owner, or on a disk that is read-only
            os.utime(file)  # for those who wait
        yield
    finally:
        os.close(file)


class Ledger:
    """The ledger at `path` of the device whose identity key this is; made on first use.

    head: the file that holds the newest row, by default beside the key. It belongs to one ledger for ever: a device
        whose ledger is gone stays silent. Keep it where a backup of the ledger is not restored to.
    seen: the newest row that the view of the fleet has. If this device signed it and the ledger lacks it, the ledger
        is an old copy; a row that it did not sign is ignored, so no one can silence a device by lying.
    accepted: hashes of plug-ins' sources that are taken though earlier rows name others; the first row makes it known.
    """

    def __init__(
        self,
        path: str | Path,
        key: str | Path | Ed25519PrivateKey,
        *,
        device: str = "",
        budgets: Sequence[Budget] = (),
        head: str | Path | None = None,
        seen: Row | None = None,
        accepted: Sequence[str] = (),
    ) -> None:
        self.path = Path(path).resolve()  # SQLite keeps its log beside the file itself, not beside a link to it
        self._key = key if isinstance(key, Ed25519PrivateKey) else secret.identity(key)
        beside = self.path if isinstance(key, Ed25519PrivateKey) else Path(key)
        self.head_path = Path(head) if head is not None else beside.with_suffix(".head")
        self.budgets = tuple(budgets)
        self._device, self._asked, self._accepted = device, seen, tuple(accepted)
        self._allowances = [Allowance(budget.epsilon, budget.delta, budget.neighbours) for budget in self.budgets]
        self._all, self._tallies = Tally(Budget(1.0)), list[Tally]()
        self._mechanisms: dict[str, Mechanism] = {}
        self._moments: dict[str, Moment] = {}
        self._store: Store | None = None
        self._inode, self._known = 0, Tip(0, "")
        self._stamps: object = None
        self._threads = threading.Lock()
        try:
            with self._alone(WAIT_S):
                self._stamps = keep_budgets(self._read(), self._key, self.budgets)
        except BaseException:
            self.close()
            raise

    def charge(self, inference: str, mechanism: Mechanism, *, scene: str = "", epoch: str = "") -> Charged:
        """Charges an inference, once however often this name is charged. Raises SpendingError where it must not run.

        epoch: names the draw of a channel that stands still; left out, the inference counts as one of its own.
        """
        return self.charge_all([Booking(inference, mechanism, scene, epoch)])[0]

    def charge_all(self, bookings: Sequence[Booking], *, only_new: bool = False) -> list[Charged]:
        """Charges several inferences by one commit, in their order: all of them, or none and a SpendingError.

        They wait for the disk once together. The budgets must cover all that were not charged before. only_new: refuses
        all of them if one was, or stands twice.
        """
        for booking in bookings:
            booking.check()
        with self._alone():
            store, rows, fresh = self._current(), dict[str, Row](), dict[str, Booking]()
            bookings = [replace(each, mechanism=self._held(each.mechanism)) for each in bookings]
            for each in bookings:
                if (row := store.find(each.inference)) is not None:
                    rows[row.inference], before = row, (row.mechanism, row.scene)
                else:
                    before = fresh.setdefault(each.inference, each).what
                if before != each.what:
                    what = f"inference {each.inference!r} was charged before, as another mechanism or scene"
                    raise SpendingError("clash", what)
            if only_new and len(fresh) < len(bookings):
                raise SpendingError("clash", "this inference was charged before")
            if fresh:
                rows |= {row.inference: row for row in self._append(store, tuple(fresh.values()))}
            return [Charged(rows[name], fresh.pop(name, None) is not None) for name in (b.inference for b in bookings)]

    def _append(self, store: Store, bookings: Sequence[Booking]) -> list[Row]:
        """Rows of new inferences, on the disk in the ledger and in the head when this returns."""
        moment = self._now()
        self._mechanisms.update((each.mechanism.digest, each.mechanism) for each in bookings)
        self._require_plugins(plugin for each in bookings for plugin in each.mechanism.plugins)
        self._require_budget(bookings, moment.elapsed)
        rows, tip = list[Row](), self.tip
        for each in bookings:
            digest = each.mechanism.digest
            rows.append(
                chain.signed(
                    self._key,
                    tip,
                    moment,
                    inference=each.inference,
                    mechanism=digest,
                    scene=each.scene,
                    epoch=each.epoch,
                )
            )
            tip = Tip(rows[-1].seq, rows[-1].hash)
        store.append(rows, {each.mechanism.digest: each.mechanism.text for each in bookings})
        head.write(self.head_path, Head(self.origin.hash, tip))
        for row in rows:
            self._note(row)
        self._known = self.tip
        self._stamps = store.stamps()
        self._require_same_file(self._stamps[0].inode)
        return rows

    def probe(self) -> None:
        """Writes to ledger and head what they hold already; raises SpendingError where a charge would fail on them.

        A full or read-only disk is found before a device says that it is ready. Budgets: `prepare`.
        """
        with self._alone():
            store = self._current()
            store.probe()
            head.write(self.head_path, Head(self.origin.hash, self.tip))
            self._stamps = store.stamps()

    def prepare(self, mechanism: Mechanism, *, scene: str = "", epoch: str | None = None, most: int = 1) -> int:
        """The number of next inferences of a mechanism that the budgets cover, up to `most`.

        Composes what the first charge would have to wait for; raises SpendingError where it would be refused. epoch:
        None, where it is not known yet, is that of the last row: `charge` decides when it is.
        """
        with self._alone():
            self._current()
            mechanism = self._held(mechanism)
            self._mechanisms.setdefault(mechanism.digest, mechanism)
            self._require_plugins(mechanism.plugins)
            known = self._last.epoch if self._last and epoch is None else epoch or ""
            next_one, now = Booking("", mechanism, scene, known), self._now().elapsed
            self._require_budget([next_one], now)
            both = zip(self._tallies, self._allowances, strict=True)
            return min([most_covered(*each, next_one, self._mechanisms, now, most=most) for each in both], default=most)

    def epsilon(
        self, delta: float, *, scene: str | None = None, neighbours: Neighbours | str = Neighbours.ZERO_OUT
    ) -> float:
        """ε at δ of all that was charged, under one relation; scene: of what was charged in one scene."""
        with self._alone():
            store = self._current()
            tally = self._all if scene is None else Tally(Budget(1.0, scene=True))
            for row in store.rows() if scene is not None else ():
                tally.add(row)
            used = tally.used(scene or "", 0)
            return total({self._mechanisms[digest]: use for digest, use in used.items()}, delta, neighbours)

    @property
    def tip(self) -> Tip:
        return Tip(self._last.seq, self._last.hash) if self._last else Tip(0, self.origin.hash)

    def close(self) -> None:
        with self._threads:
            if self._store is not None:
                self._store.close()
                self._store = None

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _now(self) -> Moment:
        return clock.now(self._last.moment if self._last else None, self._moments)

    # What is on the disk

    def _current(self) -> Store:
        """The store, read again from the beginning if another process has touched the file or the head since.

        The head too: a copy of the ledger that another process charges has the same one.
        """
        store, newest = self._store, Head(self.origin.hash, self.tip)
        if store is None or self._stamps != store.stamps() or head.read(self.head_path) != newest:
            self._require_same_file(os.stat(self.path).st_ino)
            return self._read()
        return store

    def _require_same_file(self, inode: int) -> None:
        if self._inode and inode != self._inode:
            raise SpendingError("restored", f"{self.path} was replaced while the device was running")

    def _read(self) -> Store:
        """The store, opened anew; checks all rows, against each other and against the head, and counts them."""
        self._stamps = None
        if self._store is not None:
            self._store.close()
            self._store = None
        kept = head.read(self.head_path)
        if kept is not None and not self.path.exists():
            raise SpendingError("missing", f"{self.path} is missing, but {kept.tip.seq} rows were written to it")
        key = self._key.public_key().public_bytes_raw().hex()
        fresh = Origin(secrets.token_hex(16), self._device, key) if kept is None else None
        self._store = store = Store(self.path, fresh)
        self._inode = self._inode or store.stamps()[0].inode
        store.sound()
        self.origin = store.origin()
        if self.origin.key != key:
            raise SpendingError("clash", f"{self.path} belongs to another key than this device's")
        self._tallies = [Tally(budget) for budget in self.budgets]
        self._all, self._last = Tally(Budget(1.0)), None
        self._mechanisms |= parse_all(store.mechanisms(), self.path)
        if kept is not None and kept.ledger != self.origin.hash:
            raise SpendingError("restored", f"{self.head_path} belongs to another ledger than {self.path}")
        for wrong in chain.faults(self.origin, self._noted(store.rows()), head=kept and kept.tip, signatures=False):
            status = "restored" if wrong.startswith("cut off") else "corrupt"
            raise SpendingError(status, f"{self.path}: {wrong}; `airpool ledger verify` lists all")
        if kept is None and self.tip.seq:
            raise SpendingError("missing", f"{self.head_path} is missing, but {self.path} has {self.tip.seq} rows")
        self._require_seen(store)
        known = self._known
        if known.seq and not any(Tip(row.seq, row.hash) == known for row in islice(store.rows(known.seq - 1), 1)):
            raise SpendingError(
                "restored", f"{self.path} lacks row {known.seq}, which this process has written or read"
            )
        if kept is None or kept.tip != self.tip:  # new, or killed between row and head
            head.write(self.head_path, Head(self.origin.hash, self.tip))
        self._known = self.tip
        here = self._now()
        self._moments.setdefault(here.boot, here)
        self._stamps = store.stamps()
        return store

    def _require_seen(self, store: Store) -> None:
        seen = self._asked
        if seen is None or seen.hash != seen.true_hash or not chain.signature_holds(seen, self._key.public_key()):
            return
        if store.find(seen.inference) != seen:
            raise SpendingError("restored", f"{self.path} lacks row {seen.seq}, which the fleet has: it is an old copy")

    def _noted(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            if row.mechanism not in self._mechanisms:
                raise SpendingError("corrupt", f"{self.path}: the mechanism of row {row.seq} is missing")
            self._note(row)
            yield row

    def _note(self, row: Row) -> None:
        for tally in (self._all, *self._tallies):
            tally.add(row)
        self._moments[row.boot] = row.moment
        self._last = row

    @property
    def _charged(self) -> list[Mechanism]:
        """The mechanisms that have a row."""
        return [self._mechanisms[digest] for digest in self._all.used("", 0)]

    def _held(self, mechanism: Mechanism) -> Mechanism:
        """The mechanism as signed rows have it: what it leaks is computed once, wherever and with whatever tools."""
        return next((each for each in self._charged if each.described == mechanism.described), mechanism)

    def _require_plugins(self, loaded: Iterable[UsedPlugin]) -> None:
        known = [each for mechanism in self._charged for each in mechanism.plugins]
        require_accepted(loaded, known, self._accepted)

    def _require_budget(self, bookings: Sequence[Booking], elapsed: int) -> None:
        for tally, allowance in zip(self._tallies, self._allowances, strict=True):
            require_budget(tally, allowance, bookings, self._mechanisms, elapsed)

    @contextmanager
    def _alone(self, held_s: float | None = None) -> Iterator[None]:
        """No other thread and no other process is at the ledger; whatever fails is a refusal."""
        with self._threads:
            try:
                with locked(Path(f"{self.path}.lock"), os.O_RDWR | os.O_CREAT, held_s=held_s), ExitStack() as stack:
                    if self.head_path.exists():  # copies of a ledger share it
                        stack.enter_context(locked(self.head_path, os.O_RDONLY, held_s=held_s))
                    yield
            except (sqlite3.Error, OSError) as error:
                self._stamps = None
                raise because(error, str(self.path)) from None
            except ValueError as error:  # what cannot be accounted for is not sent
                raise SpendingError("failed", str(error)) from None
            except SpendingError as refused:
                if refused.status not in ("over budget", "clash"):
                    self._stamps = None
                raise
