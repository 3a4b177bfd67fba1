"""Network ports for training traffic, InfiniBand and RoCE alike, from /sys/class/infiniband.

Speed, state and traffic every second; errors and congestion every ten seconds, because each of those files is a
question to the adapter's firmware. What a port should run at is told by its own best and by its likes on the node.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from collectors.agent.node import Node
from collectors.base import Collector, NoData, Reading, event
from collectors.digits import count_of, whole
from collectors.host.kernel_files import content
from collectors.pci import pci_address
from collectors.rates import Rates, Value
from collectors.table import table
from runtime.clock import Clock
from schemas.event import Event

CLASS = "class/infiniband"

LOOK_S = 30.0
"""How often devices are listed anew."""

SLOW_MS = 10_000

WORD_BYTES = 4
"""The data counters count words of four bytes (InfiniBand architecture, PortCounters)."""

FAST: dict[str, tuple[str, int]] = {
    "tx_bytes_per_s": ("counters/port_xmit_data", WORD_BYTES),
    "rx_bytes_per_s": ("counters/port_rcv_data", WORD_BYTES),
    "tx_wait_per_s": ("counters/port_xmit_wait", 1),
}

SLOW: dict[str, tuple[str, int]] = {
    "tx_discards_per_s": ("counters/port_xmit_discards", 1),
    "symbol_errors_per_s": ("counters/symbol_error", 1),
    "receive_errors_per_s": ("counters/port_rcv_errors", 1),
    "remote_errors_per_s": ("counters/port_rcv_remote_physical_errors", 1),
    "integrity_errors_per_s": ("counters/local_link_integrity_errors", 1),
    "overruns_per_s": ("counters/excessive_buffer_overrun_errors", 1),
    "recoveries_per_s": ("counters/link_error_recovery", 1),
    "out_of_sequence_per_s": ("hw_counters/out_of_sequence", 1),
    "sequence_errors_per_s": ("hw_counters/packet_seq_err", 1),
    "ack_timeouts_per_s": ("hw_counters/local_ack_timeout_err", 1),
    "not_ready_per_s": ("hw_counters/rnr_nak_retry_err", 1),
    "retransmissions_per_s": ("hw_counters/roce_adp_retrans", 1),
    "ecn_marked_per_s": ("hw_counters/np_ecn_marked_roce_packets", 1),
    "cnp_sent_per_s": ("hw_counters/np_cnp_sent", 1),
    "cnp_handled_per_s": ("hw_counters/rp_cnp_handled", 1),
}
"""Columns that are the growth of a counter: file and unit."""

DOWNED = "counters/link_downed"

_RATE = re.compile(r"([\d.]+) Gb/sec(?: \((\d+)X)?")


class Speed(NamedTuple):
    """What a port runs at: bytes per second in one direction, and lanes (None where it does not say)."""

    bytes_per_s: float
    lanes: int | None


def parse_rate(text: str) -> Speed:
    """The file `rate`. Raises ValueError where it is something else.

    >>> parse_rate("400 Gb/sec (4X NDR)")
    Speed(bytes_per_s=50000000000.0, lanes=4)
    """
    match = _RATE.match(text)
    if match is None:
        raise ValueError("no rate")
    return Speed(float(match[1]) * 1e9 / 8, whole(match[2] or ""))


def parse_state(text: str) -> tuple[int, str]:
    """The files `state` and `phys_state`: number and word. Raises ValueError where it is something else.

    >>> parse_state("4: ACTIVE")
    (4, 'ACTIVE')
    """
    number, sign, word = text.partition(":")
    if not sign:
        raise ValueError("no state")
    return count_of(number.strip()), word.strip()


ACTIVE, LINK_UP = 4, 5
"""`state` and `phys_state` of a port that carries data (ib_verbs.h)."""


class _Port:
    """One port: where it is, and what was seen of it."""

    def __init__(self, device: Path, name: str, number: str) -> None:
        self.name, self.folder = f"{name}/{number}", device / "ports" / number
        # Made once: a path costs more to put together than its file to read.
        files = ("state", "phys_state", "rate", DOWNED, *(file for file, _ in (*FAST.values(), *SLOW.values())))
        self.files = {file: self.folder / file for file in files}
        self.pci = _pci(device)
        self.like = (_text(device / "board_id") or _text(device / "hca_type"), _text(self.folder / "link_layer"))
        self.best: Speed | None = None
        self.up: bool | None = None
        self.downed: int | None = None


class FabricCollector:
    """Fills section `fabric`, and tells when a port that was up goes down, comes back, or did both between two looks.

    `sys` is the root of /sys. A port that has never been up is not in use, and no fault.
    """

    name = "fabric"
    interval_s = 1.0

    def __init__(self, sys: Path, clock: Clock) -> None:
        self._sys, self._clock = sys, clock
        self._rates = Rates()
        self._ports: dict[str, _Port] = {}
        self._look_at = float("-inf")
        self._slow_period: int | None = None

    def collect(self, tick_ms: int) -> Reading:
        """All ports. NoData where the machine has none."""
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._look()
            self._look_at = now + LOOK_S
        if not self._ports:
            raise NoData("no InfiniBand or RoCE ports here")
        slow = tick_ms // SLOW_MS != self._slow_period
        self._slow_period = tick_ms // SLOW_MS
        counters = FAST | SLOW if slow else FAST
        drafts: list[Event] = []
        rows = [self._read(port, counters, now, drafts) for port in self._ports.values()]
        self._compare(rows)
        matrix, missing = table("fabric", list(self._ports), tuple(rows[0]), rows)
        return Reading({"fabric": matrix}, missing=missing, drafts=tuple(drafts))

    def _look(self) -> None:
        found: dict[str, _Port] = {}
        for device in _inside(self._sys / CLASS):
            for port in _inside(device / "ports"):
                name = f"{device.name}/{port.name}"
                found[name] = self._ports.get(name) or _Port(device, device.name, port.name)
        gone = {name: port for name, port in self._ports.items() if name not in found and port.up}
        # A port that was in use and is not even listed any more keeps its row: it is down.
        self._ports = dict(sorted((found | gone).items()))

    def _read(
        self, port: _Port, counters: dict[str, tuple[str, int]], now: float, drafts: list[Event]
    ) -> dict[str, Value]:
        row: dict[str, Value] = {}
        up = self._state(port, drafts)
        row["up"] = "unsupported" if up is None else float(up)
        try:
            speed = parse_rate(_text(port.files["rate"]))
        except ValueError:
            speed = None
        if up and speed is not None:
            port.best = max(port.best or speed, speed, key=lambda s: (s.bytes_per_s, s.lanes or 0))
        here = speed if up else None
        row["speed_bytes_per_s"] = "unsupported" if here is None else here.bytes_per_s
        row["width_lanes"] = "unsupported" if here is None or here.lanes is None else float(here.lanes)
        row["speed_most_bytes_per_s"] = row["width_most_lanes"] = "unsupported"
        for column, (file, unit) in counters.items():
            count = _count(port.files[file])
            rate = self._rates.rate((port.name, column), (count,), now) if count is not None else "unsupported"
            row[column] = rate if isinstance(rate, str) else rate * unit
        row["downed_count"] = "unsupported" if port.downed is None else float(port.downed)
        return row

    def _state(self, port: _Port, drafts: list[Event]) -> bool | None:
        """Whether the port is up, None where its files say nothing; what changed goes into `drafts`."""
        before, downed_before = port.up, port.downed
        word = "gone"
        try:
            state, word = parse_state(_text(port.files["state"]))
            physical, _ = parse_state(_text(port.files["phys_state"]))
            now: bool | None = state == ACTIVE and physical == LINK_UP
        except ValueError:
            now = False if before else None
        port.up, port.downed = now, _count(port.files[DOWNED])
        grown = (port.downed or 0) - downed_before if downed_before is not None and port.downed is not None else 0
        if before and now and grown > 0:
            drafts += [self._event(port, False, f"down {grown} times since the last look"), self._event(port, True)]
        elif before and now is False:
            drafts.append(self._event(port, False, f"state {word}"))
        elif before is False and now and port.best is not None:
            drafts.append(self._event(port, True))
        return now

    def _event(self, port: _Port, up: bool, why: str = "") -> Event:
        text = f"{port.name} is {'up again' if up else 'down'}{why and f' ({why})'}"
        detail = {"link": port.name, "layer": port.like[1]}
        return event(
            "link_up" if up else "link_down",
            severity="info" if up else "critical",
            pci=port.pci,
            text=text,
            detail=detail,
        )

    def _compare(self, rows: Sequence[dict[str, Value]]) -> None:
        """Fill in what each port could run at: its own best, and that of ports of the same make and layer."""
        best: dict[tuple[str, str], Speed] = {}
        for port in self._ports.values():
            if port.best is not None and port.like[0]:
                known = best.get(port.like, port.best)
                best[port.like] = max(known, port.best, key=lambda s: (s.bytes_per_s, s.lanes or 0))
        for port, row in zip(self._ports.values(), rows, strict=True):
            most = best.get(port.like, port.best)
            if most is not None:
                row["speed_most_bytes_per_s"] = most.bytes_per_s
                row["width_most_lanes"] = float(most.lanes) if most.lanes is not None else "unsupported"


def _text(path: Path) -> str:
    """A file's text without its end; "" where it cannot be read."""
    try:
        return content(path).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _count(path: Path) -> int | None:
    text = _text(path)
    return whole(text)


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError:
        return []


def _pci(device: Path) -> str:
    for line in _text(device / "device" / "uevent").splitlines():
        if line.startswith("PCI_SLOT_NAME="):
            return pci_address(line.partition("=")[2])
    return ""


def on_node(node: Node) -> Collector:
    """From this machine's /sys."""
    return FabricCollector(node.machine.sys, node.clock)
