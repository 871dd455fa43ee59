"""Blame: which devices of a round did not follow the protocol, and what that rests on (docs/howto/secure-sum.md).

A fault that the server sees itself is certain: the message came from that device. That the shares of one device cannot
be read is the word of another. One of the two lies, and nothing tells which, so that such complaints count together:
of n devices t must hold the shares of each, and more than n − t complaints stop the round.
"""


class Blame:
    """Faults of one round. size: n, the devices of its group. threshold: t."""

    def __init__(self, size: int, threshold: int) -> None:
        self._spare, self._seen, self._accusers = size - threshold, dict[int, str](), dict[int, set[int]]()

    def seen(self, device: int, why: str) -> None:
        """A fault that the server has seen; the first one of a device stays."""
        self._seen.setdefault(device, why)

    def complaint(self, accuser: int, accused: list[int]) -> None:
        for device in accused:
            self._accusers.setdefault(device, set()).add(accuser)

    def verdict(self) -> dict[int, str]:
        """Devices to leave out of the next rounds, with the reason.

        No n − t devices can bring this upon another. Where no device can be spared (n = t), one complaint stops the
        round, and both devices are left out.
        """
        found = dict(self._seen)
        for device, accusers in self._accusers.items():
            if len(accusers) <= self._spare:
                continue
            found.setdefault(device, f"{len(accusers)} devices cannot use what it sent")
            if len(accusers) == 1:
                (accuser,) = accusers
                found.setdefault(accuser, f"only it cannot use what device {device} sent")
        return dict(sorted(found.items()))
