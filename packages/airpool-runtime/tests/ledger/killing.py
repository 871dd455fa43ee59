"""Kills a device again and again, at random moments or at every step, and checks what is left: run as a program.

    python killing.py FOLDER BATCH random ROUNDS SEED      a new ledger every 200 rounds
    python killing.py FOLDER BATCH steps EVERY             a new ledger for each step

A device is a fork of this program: it opens its ledger, takes announcements, charges BATCH of them at a time, and
"sends" by appending the inference's name to a file. After a kill the same announcements come again.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from airpool import Network
from airpool_runtime.ledger.backup import content, faults
from airpool_runtime.ledger.budget import Booking
from airpool_runtime.ledger.ledger import Ledger
from airpool_runtime.ledger.mechanism import mechanism

ONE = mechanism(Network.uniform(num_devices=4, noise_std=0.5), device=3)
HERE = os.path.join("airpool_runtime", "ledger")
MOST_STEPS, ROUNDS_OF_ONE, BATCH = 3000, 200, 1


def run(folder: Path, number: int, *, opened: Callable[[], object] = int) -> None:
    """A device: `number` batches of inferences, from the one on that was announced last."""
    sent, announced = (os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_APPEND) for name in ("sent", "announced"))
    first = int(os.pread(announced, 20, max(0, os.fstat(announced).st_size - 20)) or b"0")
    with Ledger(folder / "ledger.db", folder / "identity.key") as ledger:
        opened()
        for start in range(first, first + number * BATCH, BATCH):
            batch = range(start, start + BATCH)
            os.write(announced, "".join(f"{i:20}" for i in (*batch, start)).encode())
            charged = ledger.charge_all([Booking(f"inference {i}", ONE) for i in batch])
            for i, each in zip(batch, charged, strict=True):
                if each.new:
                    os.write(sent, f"{i}\n".encode())


def check(folder: Path) -> tuple[int, int]:
    """How many were sent and charged; an error if the ledger is less than what was sent, or not whole, or refused."""
    Ledger(folder / "ledger.db", folder / "identity.key").close()
    found = content(folder / "ledger.db")
    wrong = list(faults(found, head=folder / "identity.head"))
    assert not wrong, wrong
    sent = (folder / "sent").read_text().split() if (folder / "sent").exists() else []
    announced = (folder / "announced").read_text().split() if (folder / "announced").exists() else []
    charged = [row.inference.removeprefix("inference ") for row in found.rows]
    assert len(set(sent)) == len(sent), "sent twice"
    assert len(set(charged)) == len(charged), "charged twice"
    assert set(sent) <= set(charged) <= set(announced), "sent but not charged, or charged but not announced"
    assert len(charged) % BATCH == 0, "charged by halves"
    return len(sent), len(charged)


def killed_at(step: int) -> None:
    """Kills this process when it comes to the n-th step (call, line or return) of the ledger's code."""
    left = step

    def trace(frame, event, _):
        nonlocal left
        if HERE not in frame.f_code.co_filename:
            return None
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def forked(work: Callable[[], None]) -> int:
    """The number of a child that does some work and ends."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def was_killed(child: int) -> bool:
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or status == 0, "the device failed"
    return os.WIFSIGNALED(status)


def at_random(folder: Path, rounds: int, rng: random.Random) -> tuple[int, int, int]:
    """Half of the kills fall into opening the ledger, half into charging. New ledgers open fast."""
    sent, charged = 0, 0
    for start in range(0, rounds, ROUNDS_OF_ONE):
        once = fresh(folder)
        for _ in range(start, min(start + ROUNDS_OF_ONE, rounds)):
            opened, say = os.pipe()
            child = forked(lambda where=once, say=say: run(where, 10**6, opened=lambda: os.write(say, b".")))
            os.close(say)
            if rng.random() < 0.5:
                os.read(opened, 1)
            time.sleep(0.01 * rng.random())
            os.kill(child, signal.SIGKILL)
            os.close(opened)
            assert was_killed(child)
        run(once, 2)
        found = check(once)
        sent, charged = sent + found[0], charged + found[1]
        shutil.rmtree(once)
    return rounds, sent, charged


def fresh(folder: Path) -> Path:
    once = folder / "once"
    once.mkdir()
    shutil.copy(folder / "identity.key", once)
    return once


def at_steps(folder: Path, every: int) -> tuple[int, int, int]:
    kills, sent, charged = 0, 0, 0
    for step in range(1, MOST_STEPS, every):
        once = fresh(folder)

        def work(at: int = step, where: Path = once) -> None:
            killed_at(at)
            run(where, 2)

        killed = was_killed(forked(work))
        check(once)
        run(once, 2)  # the same announcement again
        found = check(once)
        kills, sent, charged = kills + killed, sent + found[0], charged + found[1]
        shutil.rmtree(once)
        if not killed:
            return kills, sent, charged
    raise AssertionError(f"more than {MOST_STEPS} steps")


if __name__ == "__main__":
    where, BATCH, how, number = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    done = at_random(where, number, random.Random(int(sys.argv[5]))) if how == "random" else at_steps(where, number)
    print(json.dumps(dict(zip(("kills", "sent", "charged"), done, strict=True))))
