"""Batch times of workers that wait for nobody (parameter servers, inference): each against its own past.

Workers differ for good (another GPU model, another share of it), so they are never compared as they are: what counts is
a worker's rise over its own recent past, less what the others have in common. Nobody waits, so there is no second side
to the evidence; the margin is wider for it. Where most workers rise together it is the job.

One call per round (one time of each worker that has one). Times may be in any one unit, only ratios count. Wrong for a
rise so slow that the recent past follows it, and for workers slow from their first rounds on.
"""

import math
from collections import deque
from collections.abc import Mapping
from statistics import median

from detectors.episode import Episodes, Rule, Verdict
from detectors.incident.cause import Witness, judge
from detectors.job.past import MAD_TO_SIGMA
from schemas.finding import Evidence, Finding, Subject

RISE = 0.10
"""A worker is slow from 10 % over its past: the published floor for verified change points, and the line at which
what-if analysis calls a job straggling. Nobody waits for the worker, so less is not worth a word."""

Z = 5.0
"""... and from 5 spreads of its own differences from the others."""

READY = 20
"""Rounds of a worker's own past before anything may be called a rise; the first ones are warm-up."""

MEMORY = 60
"""Rounds without trouble that make the past. Shared machines drift by some percent over hundreds of rounds; that is no
straggler."""

LEAST, OF = 4, 8
"""Half of the last eight rounds must show it: a worker beside a bursty neighbour is slow in bursts. Eight without any
end it."""

TOGETHER = 0.6
"""More than this part of the workers rising together is the job's slowness, not theirs."""

WORKER = Rule("batch_worker", "straggler")
JOB = Rule("batch_job", "degradation")


class _Window:
    """The last rounds of one subject: whether each showed trouble, and when."""

    def __init__(self) -> None:
        self._hits: deque[tuple[bool, int, int]] = deque(maxlen=OF)
        self._open = False
        self.since = (0, 0)

    def update(self, hit: bool, ts_ms: int, mark: int) -> bool:
        self._hits.append((hit, ts_ms, mark))
        shown = [(at, number) for was, at, number in self._hits if was]
        if not self._open and len(shown) >= LEAST:
            self._open, self.since = True, shown[0]
        self._open = self._open and bool(shown)
        return self._open


class _Worker:
    """The past of one worker: logarithms of its times, and of how they differed from the others' common motion."""

    def __init__(self) -> None:
        self.levels: deque[float] = deque(maxlen=MEMORY)
        self.apart: deque[float] = deque(maxlen=MEMORY)
        self.window = _Window()

    def rise(self, level: float) -> float:
        """Over its own past; NaN before that is known."""
        return level - median(self.levels) if len(self.levels) >= READY else math.nan

    def late(self, rise: float, apart: float) -> bool:
        """Whether it rose by itself, beyond what it does anyway."""
        if apart <= math.log1p(RISE) or rise <= math.log1p(RISE) / 2:
            return False
        middle = median(self.apart) if self.apart else 0.0
        noise = MAD_TO_SIGMA * median([abs(past - middle) for past in self.apart]) if self.apart else 0.0
        return apart > Z * noise

    def learn(self, level: float, apart: float) -> None:
        self.levels.append(level)
        if not math.isnan(apart):
            self.apart.append(apart)


class BatchTimeDetector:
    """The detector of one job; feed it its rounds in order. Nothing looks ahead."""

    def __init__(self, cluster: str, job: str) -> None:
        self._job = job
        self._episodes = Episodes(cluster)
        self._workers: dict[str, _Worker] = {}
        self._together = _Window()
        self._first: dict[str, int] = {}
        self.judged = 0
        """Rounds in which somebody had a past, and somebody else beside it."""

    def update(self, ts_ms: int, mark: int, times: Mapping[str, float]) -> list[Finding]:
        """Judge one round: the time of each worker by its name, positive and finite. `mark` numbers the round for
        people; it becomes the finding's step."""
        levels = {name: math.log(time) for name, time in sorted(times.items())}
        for name in levels:
            self._workers.setdefault(name, _Worker())
        rises = {name: self._workers[name].rise(level) for name, level in levels.items()}
        known = {name: rise for name, rise in rises.items() if not math.isnan(rise)}
        self.judged += len(known) > 1
        up = [name for name, rise in known.items() if rise > math.log1p(RISE)]
        together = len(known) > 1 and len(up) > TOGETHER * len(known)
        said = self._job_says(ts_ms, mark, known, len(up), self._together.update(together, ts_ms, mark))
        apart = _apart(known)
        late = set()
        for name, level in levels.items():
            worker, beyond = self._workers[name], apart.get(name, math.nan)
            if name in apart and worker.late(rises[name], beyond):
                late.add(name)
            elif not together:
                worker.learn(level, beyond)
        for name in apart:
            open_ = self._workers[name].window.update(name in late, ts_ms, mark)
            said += self._worker_says(ts_ms, mark, name, open_, apart[name], known[name] - apart[name])
        return said

    def _worker_says(
        self, ts_ms: int, mark: int, name: str, active: bool, apart: float, common: float
    ) -> list[Finding]:
        number = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else None
        subject = (
            Subject(scope="group", job=self._job, group=name)
            if number is None
            else Subject(scope="rank", job=self._job, rank=number)
        )
        since = self._workers[name].window.since
        detected = self._detected(f"worker {name}", active, mark)

        def say() -> Verdict:
            why = judge(Witness(timed=True))
            times = math.exp(apart)
            text = (
                f"worker {name} takes {times:.2f} times as long as in its own last {MEMORY} usual rounds, the others' "
                f"common motion ({math.exp(common):.2f} times theirs) taken off"
            )
            return Verdict(
                cause=why.cause,
                score=times - 1,
                confidence=why.confidence,
                runner_up=why.runner_up,
                summary=f"worker {name} takes {times:.2f} times as long for a batch as it used to, the others do not",
                evidence=(Evidence(text=text, metric="batch_time", value=times, baseline=1.0, peers=math.exp(common)),),
                onset_step=since[1],
                detected_step=detected,
            )

        return self._episodes.observe(WORKER, subject, active, ts_ms, say, since[0])

    def _job_says(self, ts_ms: int, mark: int, known: Mapping[str, float], up: int, active: bool) -> list[Finding]:
        since = self._together.since
        detected = self._detected("job", active, mark)

        def say() -> Verdict:
            times = math.exp(median(known.values()))
            text = f"{up} of {len(known)} workers take longer than in their own past, {times:.2f} times in the middle"
            return Verdict(
                confidence=0.6,
                score=times - 1,
                slowdown=round(times, 3),
                summary=f"all workers take {times:.2f} times as long for a batch, no single culprit",
                evidence=(Evidence(text=text, metric="batch_time", value=times, baseline=1.0),),
                onset_step=since[1],
                detected_step=detected,
            )

        return self._episodes.observe(JOB, Subject(scope="job", job=self._job), active, ts_ms, say, since[0])

    def _detected(self, who: str, active: bool, mark: int) -> int:
        if not active:
            self._first.pop(who, None)
            return mark
        return self._first.setdefault(who, mark)


def _apart(rises: Mapping[str, float]) -> dict[str, float]:
    """Each worker's rise less the lower median of the others': with two peers the one that rose less is the reference.
    Empty where nobody is beside."""
    if len(rises) < 2:
        return {}
    ordered = sorted(rises.values())
    middle = (len(ordered) - 2) // 2
    out = {}
    for name, rise in rises.items():
        # The lower median of the others: taking one of the smaller values away moves it up by one place.
        out[name] = rise - ordered[middle + (rise <= ordered[middle])]
    return out
