"""What of a run of NCCL Inspector's records cannot be judged, and why: too few rounds, or ranks without records."""

import math
from collections.abc import Iterable

from collectors.nccl.inspector import DumpStats, Perf
from detectors.job.arrival import LEAST_ROUNDS, READY
from detectors.job.bandwidth import SYNCHRONOUS
from detectors.job.groups import ENOUGH, QUORUM, WHOLE_UP_TO

NEEDED = READY + LEAST_ROUNDS
"""Rounds of one stream before anything can be said of it."""

MOST_OPEN = 1024
"""Rounds of one stream that wait for ranks at a time; the oldest is given up."""

NAMED = 8
"""Ranks that one note names."""


class _Stream:
    """Rounds of one function and size class of one communicator: how many were complete, and how many nearly."""

    def __init__(self, size: int) -> None:
        self.whole = size if size <= WHOLE_UP_TO else math.ceil(ENOUGH * size)
        self.quorum = math.ceil(QUORUM * size)
        self.wholes = self.quorums = 0
        self._heard: dict[int, set[int]] = {}

    def add(self, sn: int, rank: int) -> None:
        heard = self._heard.setdefault(sn, set())
        if rank in heard:
            return
        heard.add(rank)
        self.quorums += len(heard) == self.quorum
        if len(heard) == self.whole:
            self.wholes += 1
        if len(self._heard) > MOST_OPEN:
            del self._heard[next(iter(self._heard))]


class RunSeen:
    """The rounds of one run, to say what cannot be judged in it."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str, int], _Stream] = {}
        self._members: dict[str, tuple[int, set[int]]] = {}
        self._settled: set[str] = set()

    def watch(self, found: Perf | DumpStats) -> None:
        """Take in one line of a process of the run."""
        member = found.member
        size, ranks = self._members.setdefault(member.id, (member.size, set()))
        ranks.add(member.rank)
        if isinstance(found, DumpStats) or found.function not in SYNCHRONOUS or size < 2 or member.id in self._settled:
            return
        # Sizes that vary fall together in classes of two, as where they are judged.
        key = (member.id, found.function, max(found.size_bytes, 1).bit_length())
        stream = self._streams.get(key) or self._streams.setdefault(key, _Stream(size))
        stream.add(found.sn, member.rank)
        if stream.wholes >= NEEDED:
            self._settled.add(member.id)

    def notes(self) -> list[str]:
        """Lines for the reader; none where whole rounds were enough."""
        if not self._members:
            return []
        missing = self._missing()
        if self._settled:
            return [f"not judged: what needs all ranks: {missing}"] if missing else []
        if not self._streams:
            return ["not judged: stragglers and slow links: no collective of two or more ranks is in it"]
        if max(stream.quorums for stream in self._streams.values()) >= NEEDED:
            return [f"not judged: slow links: {missing or 'operations of some ranks are missing in each round'}"]
        most = max(stream.wholes for stream in self._streams.values())
        rounds = f"{most or 'no'} complete round{'s' if most != 1 else ''} of one collective, {NEEDED} are needed"
        return [f"not judged: stragglers and slow links: {rounds}" + (f" ({missing})" if missing else "")]

    def _missing(self) -> str:
        """Whose records the widest communicator lacks; "" where it lacks none."""
        size, ranks = max(self._members.values(), key=lambda held: (held[0], -len(held[1])))
        if len(ranks) >= size:
            return ""
        absent = [rank for rank in range(size) if rank not in ranks]
        if len(absent) == 1:
            return f"rank {absent[0]}'s records are missing"
        return f"the records of {_ranks(absent)} are missing"


def _ranks(ranks: Iterable[int]) -> str:
    """Rank numbers, runs of them as ranges; the first few.

    >>> _ranks([1, 2, 3, 5, 9])
    'ranks 1 to 3, 5 and 9'
    """
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = [f"{a}" if a == b else f"{a} to {b}" if b > a + 1 else f"{a}, {b}" for a, b in spans]
    if len(words) > NAMED:
        words = [*words[:NAMED], f"{sum(b - a + 1 for a, b in spans[NAMED:])} more"]
    return "ranks " + (", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0])
