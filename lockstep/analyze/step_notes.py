"""What of a run of steps cannot be judged, and why: too short, one rank alone, columns or rows missing."""

import statistics
from collections import Counter
from collections.abc import Iterator

from collectors.job.steps import StepLine
from detectors.job.steps import LEAST_STEPS, NOISY, NOISY_READY, READY


class RunSeen:
    """What there was of one run, to say what cannot be judged in it."""

    def __init__(self) -> None:
        self.steps = 0
        self.rows: Counter[int] = Counter()
        self._timed = False
        self._number = -1
        self._before = 0.0
        self._jumps: list[float] = []
        self._step_us: list[float] = []

    def watch(self, rows: Iterator[StepLine]) -> Iterator[StepLine]:
        """The rows, counted on their way."""
        for row in rows:
            step = row.step
            if step.step != self._number:
                self.steps, self._number = self.steps + 1, step.step
                if self.steps > 1 and len(self._jumps) < NOISY_READY:
                    self._jumps.append(abs(step.step_us - self._before))
                    self._step_us.append(step.step_us)
                self._before = step.step_us
            self.rows[step.rank] += 1
            self._timed = self._timed or any(
                t == t for t in (step.data_us, step.compute_us, step.comm_us, step.wait_us)
            )
            yield row

    def notes(self) -> list[str]:
        """Lines for the reader, each what is not judged and why."""
        noisy = bool(self._jumps) and statistics.median(self._jumps) > NOISY * statistics.median(self._step_us)
        needed = (NOISY_READY if noisy else READY) + LEAST_STEPS
        if self.steps < needed:
            kind = " (its step time jumps from step to step)" if noisy else ""
            have = "1 step" if self.steps == 1 else f"{self.steps} steps"
            return [f"not judged: {have}, at least {needed} are needed{kind}"]
        notes = []
        if len(self.rows) == 1:
            notes.append("not judged: who is slow: there is only one rank, and blame needs peers that wait")
        elif not self._timed:
            notes.append("not judged: who is slow: there is no column data_us, compute_us, comm_us or wait_us")
        short = sorted(rank for rank, count in self.rows.items() if count < self.steps)
        if short:
            least = min(short, key=lambda rank: self.rows[rank])
            ranks = f"{len(short)} of {len(self.rows)} ranks"
            notes.append(f"incomplete: {ranks} lack steps, rank {least} most ({self.rows[least]} of {self.steps})")
        return notes
