"""Size of a secure sum: the bytes of its messages, and how many devices and slots it may have.

The messages themselves are the running system's (docs/howto/secure-sum.md); what they cost is known beforehand.
"""

ID = 16
SHARE = 32
KEY = 32
TAG = 16  # authenticates a ciphertext
HASH = 16
SIGNATURE = 64
HEAD = 1 + ID  # of every message: its kind and an id
CERTIFICATE = 64

MOST_DEVICES = 1024
# Mask keys of all devices and slots of an inference: one message has them all, and must not exceed 4 MiB.
MOST_KEYS = 2**15


def advert_size(slots: int) -> int:
    """Bytes of a device's advert: a channel key and its certificate; for each slot a mask key and a hash."""
    return KEY + CERTIFICATE + 2 * KEY * slots


def ciphertext_size(slots: int) -> int:
    """Bytes that a device deals to another one: shares of key and seed for every slot, encrypted."""
    return 2 * SHARE * slots + TAG


def require_limits(devices: int, survivors: int, colluders: int, slots: int) -> None:
    """An error for a secure sum that cannot run with so many devices, survivors, colluders and slots."""
    if not 2 <= devices <= MOST_DEVICES:
        raise ValueError(f"a secure sum is of 2 to {MOST_DEVICES} devices, not {devices}")
    if colluders < 0 or not devices + colluders < 2 * survivors <= 2 * devices:
        raise ValueError(
            f"{survivors} survivors must be more than half of {devices} devices + {colluders} colluders, and at most "
            f"{devices}: else the server could have two lists of survivors signed"
        )
    if not 1 <= slots <= MOST_KEYS // devices:
        raise ValueError(
            f"a secure sum of {devices} devices has 1 to {MOST_KEYS // devices} slots an inference, not {slots}"
        )


def traffic(devices: int, residues: int, slots: int = 1, held: int | None = None) -> tuple[int, int]:
    """Bytes that a device sends and receives in one inference in which no device vanishes.

    devices: those that are ready. residues: bytes of its values. slots: N, prepared. held: of these, by default all.

    >>> traffic(12, 40 * 4)
    (2085, 3999)
    >>> traffic(12, 40 * 4, slots=16, held=7)
    (23229, 36195)
    """
    n, head, some, held = devices, HEAD, (devices + 7) // 8, slots if held is None else held
    sealed, hashes = ciphertext_size(slots), 2 * slots * HASH
    sent = advert_size(slots) + head + (n - 1) * sealed + n * hashes
    received = head + n * (2 + advert_size(slots)) + (n - 1) * (sealed + hashes)
    sent_each = 2 * head + residues + SIGNATURE + some + n * SHARE
    received_each = 2 * head + n * SIGNATURE + 2 * some
    return sent + held * sent_each, received + held * received_each
