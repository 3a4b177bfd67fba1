"""What NCCL and PyTorch write into the logs of jobs when these hang, as events of the ranks that say it."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from collectors.base import Collector, LineSource, NoData, Reading
from collectors.job.processes import Work
from collectors.nccl.hang_event import job_of
from collectors.nccl.log import LOOKS, event_of, parse
from schemas.record import NodeRecord

if TYPE_CHECKING:
    from collectors.agent.node import Node

MOST_EVENTS = 64
"""Events of one tick; a job that fails says the same on every rank and for every group."""


class JobLogsCollector:
    """New lines of log files. `ranks` are the training processes of this node, for the job's name."""

    name = "job_logs"
    interval_s = 1.0

    def __init__(self, source: LineSource, ranks: Callable[[], Mapping[int, Work]]) -> None:
        self._source, self._ranks = source, ranks

    def collect(self, tick_ms: int) -> Reading:
        """Lines over the bound are counted as job_log_flood. Raises NoData where nothing is said of a hang."""
        drafts: list[NodeRecord] = []
        counts: Counter[str] = Counter()
        works: set[Work] | None = None
        for _, line in self._source.read():
            if not LOOKS.search(line) or (found := parse(line.decode("utf-8", "replace"))) is None:
                continue
            if found.what == "init":
                continue
            if len(drafts) >= MOST_EVENTS:
                counts["job_log_flood"] += 1
                continue
            works = set(self._ranks().values()) if works is None else works
            drafts.append(event_of(found, job_of(found.rank, works)))
        if not drafts:
            raise NoData("no log speaks of a hang")
        return Reading(missing=dict(counts), drafts=tuple(drafts))


def on_node(node: "Node") -> Collector | None:
    """Where the folder of the jobs' logs is given; lines that were there before the agent are history."""
    settings = node.settings
    if not settings.job_log_dir:
        return None
    return JobLogsCollector(node.lines(settings.job_log_dir, settings.job_log_files), node.processes.ranks)
