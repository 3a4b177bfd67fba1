"""Which part of a fleet's past is healthy: all but what its incidents were about, with a margin around them.

Left out are the whole nodes of the culprits, the racks that were to blame, and every GPU of a job that had an incident:
who waits for a straggler is not as usual either. An incident that names nobody (the pipeline's own) is everybody's.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.incident import Incident

MARGIN_MS = 600_000
"""Before the onset and after the end. A trouble is on its way before it is one, and what moved settles afterwards: heat
takes up to three minutes, a job that was started anew its first steps."""


class Trouble(NamedTuple):
    """From `from_ms` up to `to_ms` these were not healthy; all of the fleet where nobody is named."""

    from_ms: int
    to_ms: int
    nodes: frozenset[str]
    racks: frozenset[str]
    jobs: frozenset[str]

    @property
    def everybody(self) -> bool:
        return not (self.nodes or self.racks or self.jobs)


def trouble_of(incident: Incident, until_ms: int, margin_ms: int = MARGIN_MS) -> Trouble:
    """What the newest revision of an incident was about; one that is open lasts up to `until_ms`."""
    named = {subject.node for subject in incident.culprits} | {name.partition(" (")[0] for name in incident.members}
    racks = {subject.rack for subject in incident.culprits if subject.scope == "rack"}
    jobs = {incident.job} | {subject.job for subject in incident.culprits}
    return Trouble(
        incident.onset_ms - margin_ms,
        (incident.resolved_ms if incident.resolved_ms is not None else until_ms) + margin_ms,
        *(frozenset(found - {""}) for found in (named, racks, jobs)),
    )


class Troubles:
    """Who was healthy when."""

    def __init__(self, troubles: Iterable[Trouble] = ()) -> None:
        self._troubles = tuple(troubles)
        self._edges = sorted({edge for one in self._troubles for edge in one[:2]})
        self._at: dict[int, tuple[Trouble, ...]] = {}

    def healthy(self, ts_ms: int, node: str, rack: str, jobs: Sequence[str]) -> NDArray[np.bool_]:
        """Which of a node's GPUs were healthy at a time; `jobs` are theirs, "" for none."""
        out = np.ones(len(jobs), dtype=np.bool_)
        for trouble in self._during(ts_ms):
            if trouble.everybody or node in trouble.nodes or rack in trouble.racks:
                out[:] = False
            elif trouble.jobs:
                out &= np.array([job not in trouble.jobs for job in jobs], dtype=np.bool_)
        return out

    def _during(self, ts_ms: int) -> tuple[Trouble, ...]:
        place = bisect_right(self._edges, ts_ms)
        if place not in self._at:
            self._at[place] = tuple(one for one in self._troubles if one.from_ms <= ts_ms < one.to_ms)
        return self._at[place]
