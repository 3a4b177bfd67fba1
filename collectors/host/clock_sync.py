"""How well the machine's clock is kept, by the kernel's own word: adjtimex, asked without changing anything.

ntpd, chrony (with `rtcsync`) and systemd-timesyncd all report there. chrony corrects by rate and leaves the offset
near zero, so that `clock_error_s`, the kernel's bound, says more.
"""

import ctypes
from collections.abc import Callable
from typing import NamedTuple

from collectors.agent.node import Node
from collectors.base import Collector, CollectorError, NoData, Reading
from collectors.rates import Value
from collectors.table import table

STATUS_UNSYNCHRONISED, STATUS_NANOSECONDS = 0x40, 0x2000
"""STA_UNSYNC and STA_NANO (linux/timex.h)."""

TIME_ERROR = 5
"""What adjtimex answers where the clock is not synchronised."""


class Timex(NamedTuple):
    """What adjtimex says: `offset` in micro- or nanoseconds by `status`, `error_us` the kernel's bound."""

    state: int
    status: int
    offset: int
    error_us: int


class _Timex(ctypes.Structure):
    """struct timex (linux/timex.h), with room to spare for what follows."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def ask_kernel() -> Timex:
    """Raises OSError where the system has no such call, or does not allow it."""
    adjtimex = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)
    if adjtimex is None:
        raise OSError("no adjtimex")
    timex = _Timex()
    state = adjtimex(ctypes.byref(timex))
    if state < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")
    return Timex(int(state), timex.status, timex.offset, timex.maxerror)


class ClockSyncCollector:
    """Fills the clock's columns of section `host`. `ask` is `ask_kernel` or a fake."""

    name = "clock"
    interval_s = 10.0

    def __init__(self, node: str, ask: Callable[[], Timex] = ask_kernel) -> None:
        self._node, self._ask = node, ask
        self._was = False

    def collect(self, tick_ms: int) -> Reading:
        """NoData where it cannot be asked. A clock that was synchronised and is not any more is an error to be told."""
        try:
            timex = self._ask()
        except OSError as error:
            raise NoData(f"the clock's state cannot be asked: {error}") from None
        synchronised = timex.state != TIME_ERROR and not timex.status & STATUS_UNSYNCHRONISED
        scale = 1e-9 if timex.status & STATUS_NANOSECONDS else 1e-6
        row: dict[str, Value] = {
            "clock_offset_s": timex.offset * scale,
            "clock_error_s": timex.error_us * 1e-6,
            "clock_synchronised": float(synchronised),
        }
        matrix, missing = table("host", [self._node], tuple(row), [row])
        reading = Reading({"host": matrix}, missing=missing)
        if self._was and not synchronised:
            text = f"the clock is no longer synchronised: wrong by at most {timex.error_us * 1e-6:.3g} s"
            raise CollectorError("unsynchronised", text, "clock_unsynchronised", reading)
        self._was = self._was or synchronised
        return reading


def on_node(node: Node) -> Collector:
    """From this machine's kernel."""
    return ClockSyncCollector(node.identity.node)
