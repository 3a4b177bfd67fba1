"""What a rule on NVLinks is: what it is asked with, and how long its condition must hold.

Links are read every ten seconds, bit error rates and corrected codewords every minute.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.condition import Float32
from detectors.episode import Persistence, Rule
from schemas.metrics import FEC_BINS

Mask = NDArray[np.bool_]

HIGH_BINS = range(5, FEC_BINS)
"""Codewords with so many wrong symbols. See `detectors.node.link_fec`."""

FEC = tuple(f"fec_{n}_per_s" for n in HIGH_BINS)

COLUMNS = (
    "state", "recovery_count", "recovered_count", "recovery_failed_count", "replay_count", "crc_error_count",
    "malformed_count", "overrun_count", "receive_error_count", "integrity_error_count", "effective_ber_log10",
    "symbol_ber_log10", "symbol_error_count", *FEC,
)  # fmt: skip

SLOW_GAP_MS = 300_000
"""Readings a minute apart still belong together, with some of them missing."""

TWICE = Persistence(k=2, n=2, clear=3, gap_ms=SLOW_GAP_MS)
AT_ONCE = Persistence(k=1, n=1, clear=60, gap_ms=SLOW_GAP_MS)

OFTEN = Persistence(k=5, n=10, clear=10, gap_ms=SLOW_GAP_MS)
"""Half of ten minutes' readings: an early sign need not be said early, but must last."""


class Links(NamedTuple):
    """One reading: `raw` and the increases `grown` (rows, COLUMNS), and which links have ever been up."""

    rows: tuple[str, ...]
    raw: Float32
    grown: Float32
    been_up: Mask


class LinkRule(NamedTuple):
    """`holds` says for which links; judged where any of `columns` was read."""

    rule: Rule
    confidence: float
    words: str
    columns: tuple[str, ...]
    holds: Callable[[Links], Mask]


def read(links: Links, name: str) -> Float32:
    """One column, by link."""
    values: Float32 = links.raw[:, COLUMNS.index(name)]
    return values


def grown(links: Links, names: tuple[str, ...]) -> Mask:
    """Links of which any of these counters has risen since the last reading."""
    risen: Mask = np.any(links.grown[:, [COLUMNS.index(name) for name in names]] > 0, axis=1)
    return risen
