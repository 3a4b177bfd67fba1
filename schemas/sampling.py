"""Which operations every rank keeps, decided alike everywhere without a word between them.

An operation is sampled at level j where the hash of (communicator, function, sequence number) has at least j leading
zero bits. Levels nest: ranks that chose different levels are compared at the coarsest. "Every k-th" would beat
against the rhythm of the training step; a hash does not.
"""

from hashlib import blake2b


def level(communicator: str, function: str, sn: int) -> int:
    """The number of leading zero bits (0 to 64): the coarsest level at which this operation is still kept.

    >>> level("0x1", "AllReduce", 0) >= 0
    True
    """
    raw = blake2b(f"{communicator}/{function}/{sn}".encode(), digest_size=8).digest()
    return 64 - int.from_bytes(raw, "big").bit_length()


def sampled(communicator: str, function: str, sn: int, j: int) -> bool:
    """Whether level `j` keeps this operation: one in 2^j of them."""
    return level(communicator, function, sn) >= j
