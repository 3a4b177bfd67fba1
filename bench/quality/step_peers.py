"""Other ways to judge step times, each online and with its published thresholds: what they see at a step is all they
use. They answer with the same words as ours; none of them gives a cause.

`WINDOW` and `PAST` are ours where a method publishes seconds or minutes and not steps.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable

import numpy as np

from bench.quality.step_runs import TIMES, Floats, StepRun
from bench.quality.step_score import Word

Named = Iterable[tuple[int, set[int]]]
"""Step by step, who is named as of it."""

WINDOW = 50
"""Steps of one report: NVRx's default interval is 60 s, more than a whole run here; Minder looks at minutes."""

PAST = 90
"""Steps of the job's own past, as in the published online rule."""

SLOWER = 1.1
"""Factor over the peers' or one's own time: the published floor of verified change points."""

NVRX = 0.75
"""NVRx's default threshold of all its scores."""

MINDER_W, MINDER_Z, MINDER_HOLD = 8, 2.5, 0.5
"""Minder without its VAE: windows of 8 samples; one machine the candidate in half of the windows."""


def largest_step(run: StepRun) -> list[Word]:
    """The rank with the largest step time, when it is 10 % above its peers' median over 50 steps."""
    return _words(_largest(run.columns["step_us"]))


def largest_compute(run: StepRun) -> list[Word]:
    """The same with compute time, as relative-score tools see it."""
    return _words(_largest(run.columns["compute_us"]))


def _largest(times: Floats) -> Named:
    for t in range(WINDOW - 1, len(times)):
        median = np.nanmedian(times[t - WINDOW + 1 : t + 1], axis=0)
        worst = int(np.nanargmax(median))
        yield t, {worst} if median[worst] > SLOWER * np.nanmedian(np.delete(median, worst)) else set()


def nvrx_relative(run: StepRun) -> list[Word]:
    """NVRx relative score: fastest rank's median / this rank's, per section (data, compute); alarm below 0.75."""
    return _words(_reports(run, lambda medians, _: np.nanmin(medians) / medians))


def nvrx_individual(run: StepRun) -> list[Word]:
    """NVRx individual score: this rank's best median so far / its median now; alarm below 0.75."""
    return _words(_reports(run, lambda medians, best: best / medians))


def _reports(run: StepRun, score: Callable[[Floats, Floats], Floats]) -> Named:
    sections = np.array([run.columns["data_us"], run.columns["compute_us"]])
    best = np.full(sections.shape[::2], np.inf)
    for end in range(WINDOW, sections.shape[1] + 1, WINDOW):
        medians = np.maximum(np.nanmedian(sections[:, end - WINDOW : end], axis=1), 1.0)
        best = np.fmin(best, medians)
        low = [score(now, before) < NVRX for now, before in zip(medians, best, strict=True)]
        yield end - 1, set(np.flatnonzero(np.any(low, axis=0)).tolist())


def minder(run: StepRun) -> list[Word]:
    """Minder without its VAE, on the five times of a step: windows normalised over machines and time, distance of
    each to all others (L2), z above 2.5, the same candidate in half of the last 50 windows."""
    return [word for name in TIMES for word in _words(_minder(run.columns[name]))]


def _minder(times: Floats) -> Named:
    recent: deque[int] = deque(maxlen=WINDOW)
    for t in range(MINDER_W - 1, len(times)):
        recent.append(_candidate(times[t - MINDER_W + 1 : t + 1].T))
        counts = Counter(rank for rank in recent if rank >= 0)
        yield t, {rank for rank, count in counts.items() if count >= MINDER_HOLD * WINDOW}


def _candidate(window: Floats) -> int:
    """The machine farthest from all others, -1 where none stands out. `window` is (machines, samples)."""
    low, high = np.nanmin(window), np.nanmax(window)
    scaled = np.nan_to_num((window - low) / max(high - low, 1e-9))
    square = (scaled**2).sum(axis=1)
    distance = np.sqrt(np.maximum(square[:, None] + square[None, :] - 2 * scaled @ scaled.T, 0.0)).sum(axis=1)
    z = (distance - distance.mean()) / max(float(distance.std()), 1e-9)
    return int(z.argmax()) if z.max() > MINDER_Z else -1


def job_change(run: StepRun) -> list[Word]:
    """The job's step time over 12 steps 10 % above its own first 90 steps; it cannot name anybody."""
    step = run.step
    usual = float(np.median(step[:PAST]))
    slow = (
        (t, {-1} if np.median(step[t - 11 : t + 1]) > SLOWER * usual else set()) for t in range(PAST + 12, len(step))
    )
    return [word._replace(scope="job", rank=None) for word in _words(slow)]


def _words(named: Named) -> list[Word]:
    """A word for each rank that is named and was not just before."""
    words: list[Word] = []
    before: set[int] = set()
    for step, ranks in named:
        words += [Word("rank", rank, "unknown", step) for rank in sorted(ranks - before)]
        before = ranks
    return words


def told_window(run: StepRun, times: Floats) -> int | None:
    """The rank with the largest median between the injected steps, for a rule that is told when to look."""
    if run.label.first is None or run.label.last is None:
        return None
    return int(np.nanargmax(np.nanmedian(times[run.label.first : run.label.last], axis=0)))


PEERS: dict[str, Callable[[StepRun], list[Word]]] = {
    "nvrx_relative": nvrx_relative,
    "nvrx_individual": nvrx_individual,
    "minder_without_vae": minder,
    "largest_step": largest_step,
    "largest_compute": largest_compute,
    "job_change_point": job_change,
}
