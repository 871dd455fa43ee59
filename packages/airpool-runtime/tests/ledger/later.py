"""airpool as a later version may be, with a new setting in every table of a network: import this first.

Run as a program it opens a golden ledger, goes on charging, and prints what the test compares.

    python later.py FOLDER KIND [new]        new: charges a network that uses the new settings
"""

import json
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

# Module → table → where its new setting goes: before the first one that has a default.
ADDED = {
    "network": {
        "class Devices(Brief):": "    antenna_gain: Annotated[PerDevice | float, DECIBEL] = 0.0\n    weight: Annotated",
        "class Channel:": '    doppler_hz: Annotated[float, ERROR] = 0.0\n    fading: str = "none"',
        "class Adversary:": "    arrays: Annotated[int, range(257)] = 0\n    antennas: Annotated",
        "class Network(Brief):": "    relays: int = 0\n    dimension: Annotated",
    },
    "choosing": {"class _Scored:": "    temperature: Annotated[float, SCALE] = 1.0\n    score: Score"},
}
NEW = {"doppler_hz": 3.0}


class _Later(SourceFileLoader):
    def get_data(self, path):
        text = super().get_data(path)
        if not path.endswith(".py"):
            raise OSError("no compiled code")
        source = text.decode()
        for table, lines in ADDED[self.name.rpartition(".")[2]].items():
            at = source.index(table)
            before = lines.rpartition("\n")[2]
            assert before in source[at:], before
            source = source[:at] + source[at:].replace(before, lines, 1)
        return source.encode()


class _Finder:
    """Finds the edited modules of the network before those on the disk."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        room, _, module = name.rpartition(".")
        if room != "airpool.network" or module not in ADDED:
            return None
        assert path is not None
        file = str(Path(path[0]) / f"{module}.py")
        return spec_from_file_location(name, file, loader=_Later(name, file))


def _main(folder: Path, kind: str, *more: str) -> None:
    from dataclasses import replace

    from tests.ledger.golden.make import BUDGETS, DEVICE, identity

    from airpool.network import file as network_file
    from airpool_runtime.ledger.ledger import Ledger
    from airpool_runtime.ledger.mechanism import mechanism

    network = network_file.read(folder / f"{kind}.toml")
    if more:
        network = replace(network, channel=replace(network.channel, **NEW))
    one = mechanism(network, device=DEVICE)
    with Ledger(folder / f"{kind}.db", identity(), budgets=BUDGETS) as ledger:
        before = ledger.epsilon(1e-5)
        row, new = vars(ledger.charge(f"{kind} by a later version", one, epoch="autumn")).values()
    print(json.dumps({"epsilon": before, "new": new, "mechanism": row.mechanism, "dump": network_file.dump(network)}))


if __name__ == "__main__":
    sys.meta_path.insert(0, _Finder)
    sys.path.insert(0, str(Path(__file__).parents[2]))
    _main(Path(sys.argv[1]), *sys.argv[2:])
