"""Which operations every rank keeps, decided alike everywhere without a word between them.

An operation is sampled at level j where the hash of (communicator, function, sequence number) has at least j leading
zero bits. Levels nest: ranks that chose different levels are compared at the coarsest. "Every k-th" would beat
against the rhythm of the training step; a hash does not.
"""

from collections.abc import Callable
from hashlib import blake2b

DIGEST_BYTES = 8


def level(communicator: str, function: str, sn: int) -> int:
    """The number of leading zero bits (0 to 64): the coarsest level at which this operation is still kept.

    >>> level("0x1", "AllReduce", 0) >= 0
    True
    """
    raw = blake2b(f"{communicator}/{function}/{sn}".encode(), digest_size=DIGEST_BYTES).digest()
    return 8 * DIGEST_BYTES - int.from_bytes(raw, "big").bit_length()


def sampled(communicator: str, function: str, sn: int, j: int) -> bool:
    """Whether level `j` keeps this operation: one in 2^j of them."""
    return level(communicator, function, sn) >= j


def sampler(communicator: str, function: str, j: int) -> Callable[[int], bool]:
    """`sampled` for many sequence numbers of one stream, at half the price: its own part is hashed once.

    >>> sampler("0x1", "AllReduce", 3)(17) == sampled("0x1", "AllReduce", 17, 3)
    True
    """
    if j <= 0:
        return lambda _: True
    begun = blake2b(f"{communicator}/{function}/".encode(), digest_size=DIGEST_BYTES)
    first_left_out = (1 << max(0, 8 * DIGEST_BYTES - j)).to_bytes(DIGEST_BYTES, "big")

    def keeps(sn: int) -> bool:
        whole = begun.copy()
        whole.update(b"%d" % sn)
        return whole.digest() < first_left_out

    return keeps
