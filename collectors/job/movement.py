"""Whether the jobs on a node go on: when its ranks last finished a collective or a step."""

from collections.abc import Iterable

from schemas.collective import CollectiveFrame

MOST_JOBS = 1024


class Movement:
    """Told by the collectors that see progress; asked by those that act when it stops."""

    def __init__(self) -> None:
        self._moved_ms: dict[str, int] = {}
        self._progress: dict[str, tuple[tuple[int, str, int], ...]] = {}

    def frames(self, frames: Iterable[CollectiveFrame]) -> None:
        """Collectives: a sequence number that differs is movement."""
        for frame in frames:
            now = tuple((p.member, p.function, p.last_sn) for p in frame.progress)
            if self._progress.get(frame.job) != now:
                self._progress[frame.job] = now
                self.moved(frame.job, frame.ts_ms)

    def moved(self, job: str, tick_ms: int) -> None:
        """Something of the job came to its end (a collective, a step)."""
        self._moved_ms[job] = max(tick_ms, self._moved_ms.get(job, 0))
        if len(self._moved_ms) > MOST_JOBS:
            oldest = min(self._moved_ms, key=lambda j: self._moved_ms[j])
            del self._moved_ms[oldest]
            self._progress.pop(oldest, None)

    def still_ms(self, job: str, tick_ms: int) -> int | None:
        """How long nothing of the job moved here; None where nothing ever told."""
        moved = self._moved_ms.get(job)
        return None if moved is None else max(0, tick_ms - moved)
