"""How the ranks' processes on this node are: running, waiting without end (D), stopped, or gone.

A rank in uninterruptible sleep waits for a disk, a network file system or the GPU driver and cannot be killed; for a
moment that is normal, for a minute it is why its peers wait.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from collectors.agent.node import Node
from collectors.base import Collector, NoData, Reading, event
from collectors.host.kernel_files import content
from collectors.job.processes import Work
from collectors.rates import Value
from collectors.table import table
from runtime.clock import Clock
from schemas.event import Event

LOOK_S = 10.0
"""How often the processes are looked through for new ranks."""

BLOCKED_S = 30.0
"""A rank that waited without end for so long is told once; a checkpoint to a busy file system takes seconds."""


def parse_process_state(stat: str) -> str:
    """The letter of /proc/PID/stat (its name may hold anything). Raises ValueError where there is none.

    >>> parse_process_state("7 (a) D b) S 1 7 7 0")
    'S'
    """
    _, sign, after = stat.rpartition(")")
    rest = after.split()
    if not sign or not rest or len(rest[0]) != 1:
        raise ValueError("no state")
    return rest[0]


class RankStatesCollector:
    """Fills the ranks' columns of section `host`. `ranks` lists the training processes here, by process id."""

    name = "ranks"
    interval_s = 1.0

    def __init__(self, proc: Path, node: str, ranks: Callable[[], Mapping[int, Work]], clock: Clock) -> None:
        self._proc, self._node, self._ranks, self._clock = proc, node, ranks, clock
        self._known: dict[int, Work] = {}
        self._look_at = float("-inf")
        self._blocked: dict[int, float] = {}
        self._told: set[int] = set()

    def collect(self, tick_ms: int) -> Reading:
        """NoData while no training process runs here."""
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._known, self._look_at = dict(self._ranks()), now + LOOK_S
        states = {pid: state for pid in self._known if (state := self._state(pid))}
        if not states:
            raise NoData("no training process here")
        drafts = self._waiting(states, now)
        letters = list(states.values())
        row: dict[str, Value] = {
            "rank_count": float(len(states)),
            "rank_blocked_count": float(letters.count("D")),
            "rank_stopped_count": float(sum(letter in "TtZX" for letter in letters)),
        }
        matrix, missing = table("host", [self._node], tuple(row), [row])
        return Reading({"host": matrix}, missing=missing, drafts=tuple(drafts))

    def _state(self, pid: int) -> str:
        try:
            return parse_process_state(content(self._proc / f"{pid}/stat").decode("utf-8", "replace"))
        except (OSError, ValueError):
            return ""

    def _waiting(self, states: Mapping[int, str], now: float) -> list[Event]:
        """Ranks that have waited for long, each told once; and told when they go on."""
        drafts = []
        self._blocked = {pid: self._blocked.get(pid, now) for pid, state in states.items() if state == "D"}
        for pid, since in self._blocked.items():
            if now - since >= BLOCKED_S and pid not in self._told:
                self._told.add(pid)
                drafts.append(self._event("rank_blocked", "warning", pid, f"has waited for {now - since:.0f} s"))
        for pid in [pid for pid in self._told if pid not in self._blocked]:
            self._told.discard(pid)
            if pid in states:
                drafts.append(self._event("rank_unblocked", "info", pid, "goes on"))
        return drafts

    def _event(self, kind: str, severity: str, pid: int, words: str) -> Event:
        work = self._known[pid]
        text = f"rank {work.rank} of {work.job} (process {pid}) {words} (state D)"
        return event(kind, severity=severity, job=work.job, rank=work.rank, text=text, detail={"pid": str(pid)})


def on_node(node: Node) -> Collector:
    """From this machine's /proc."""
    return RankStatesCollector(node.machine.proc, node.identity.node, node.processes.ranks, node.clock)
