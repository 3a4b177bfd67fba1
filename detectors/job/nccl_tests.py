"""What a run of nccl-tests proves: wrong results, a process that comes late, a host slower than its like.

One run alone says nothing of bandwidth: what a machine should reach is not in its results. Runs are compared only with
runs of the same test on as many ranks and hosts of the same GPU.
"""

from collections.abc import Sequence
from statistics import median

import msgspec
import numpy as np

from schemas.causes import Cause, Kind
from schemas.finding import Evidence, Finding, Subject
from schemas.identity import episode_id

SLOW = 1.1
"""A run is slow where its like take a tenth less time: what GREYHOUND (ATC'25) calls a degraded group."""

STEADY = 0.9
"""A process is late where it is the last to come in nine of ten iterations: chance gives one in as many as there are
processes."""

LEAST_RUNS, LEAST_ITERATIONS = 3, 5
"""Fewer have no majority."""


class Device(msgspec.Struct, frozen=True):
    """One rank and its GPU."""

    rank: int
    host: str
    pid: int
    device: int
    bus: str = ""
    info: str = ""


class Row(msgspec.Struct, frozen=True):
    """One size, out of place or in place. `wrong` is None where nothing was checked; `process_us` are the times of
    every process and iteration, where they were kept."""

    size_bytes: int
    type: str
    operation: str
    in_place: bool
    time_us: float
    algbw_gbs: float
    busbw_gbs: float
    wrong: float | None = None
    process_us: tuple[tuple[float, ...], ...] = ()


class Bench(msgspec.Struct, frozen=True):
    """One run. `failed` is the program's own verdict on its results or its bandwidth; `whole` whether it came to its
    end."""

    test: str
    version: str
    devices: tuple[Device, ...]
    rows: tuple[Row, ...]
    out_of_bounds: int | None = None
    failed: bool = False
    average_gbs: float | None = None
    whole: bool = True

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(device.host for device in self.devices))


def judge(cluster: str, job: str, runs: Sequence[Bench], ts_ms: int) -> list[Finding]:
    """The findings that runs of nccl-tests prove."""
    found: list[Finding] = []
    for number, run in enumerate(runs):
        subject = _where(job, run)
        wrong = [row for row in run.rows if row.wrong]
        if wrong or run.out_of_bounds:
            worst = max(wrong, key=lambda row: row.wrong or 0.0, default=None)
            text = f"{run.out_of_bounds or len(wrong)} values out of bounds"
            if worst is not None:
                text = f"{worst.wrong:g} wrong values at {worst.size_bytes} bytes, {len(wrong)} sizes with any"
            words = f"wrong results of {run.test or 'nccl-tests'} on {', '.join(run.hosts) or 'unknown hosts'}: {text}"
            found.append(
                _say(cluster, subject, "hardware", "unknown", 0.8, words, (text,), ts_ms, number, "gpu_memory_error")
            )
        elif run.failed:
            words = (
                f"{run.test or 'nccl-tests'} calls its own results failed on {', '.join(run.hosts) or 'unknown hosts'}"
            )
            text = f"average bus bandwidth {run.average_gbs} GB/s" if run.average_gbs is not None else words
            found.append(_say(cluster, subject, "degradation", "unknown", 0.8, words, (text,), ts_ms, number))
        found += _late(cluster, job, run, ts_ms, number)
    return found + _slow(cluster, job, runs, ts_ms)


def comparable(runs: Sequence[Bench]) -> bool:
    """Whether the bandwidth of any run has been held against its like."""
    return any(len(like) >= LEAST_RUNS for like in _alike(runs).values())


def _late(cluster: str, job: str, run: Bench, ts_ms: int, number: int) -> list[Finding]:
    """The process whose own time is the shortest again and again: all others wait for it."""
    votes: dict[int, list[tuple[float, float, int]]] = {}
    judged = 0
    for row in run.rows:
        times = np.array(row.process_us)
        if times.ndim != 2 or times.shape[0] < 2 or times.shape[1] < LEAST_ITERATIONS or np.isnan(times).any():
            continue
        judged += 1
        first = times.argmin(axis=0)
        process = int(np.bincount(first).argmax())
        own, others = float(np.median(times[process])), float(np.median(np.delete(times, process, axis=0)))
        if (first == process).mean() >= STEADY and own > 0 and others >= SLOW * own:
            votes.setdefault(process, []).append((own, others, row.size_bytes))
    found = []
    for process, sizes in votes.items():
        if len(sizes) * 2 <= judged:
            continue
        one = len({device.pid for device in run.devices}) == len(run.devices)
        device = run.devices[process] if one and process < len(run.devices) else None
        rank = device.rank if device else process
        own, others, size = max(sizes, key=lambda s: s[1] / s[0])
        subject = Subject(scope="rank", job=job, rank=rank, node=device.host if device else "")
        evidence = (
            f"process {process} takes {own:.0f} us where the others take {others:.0f} us ({size} bytes): it comes "
            f"{others - own:.0f} us late and they wait",
            f"it is the last to come in at least {STEADY:.0%} of the iterations of {len(sizes)} of {judged} tables",
        )
        words = (
            f"rank {rank} comes late to every {run.test or 'collective'}: the others wait {others - own:.0f} us for it"
        )
        found.append(
            _say(cluster, subject, "straggler", "unknown", 0.85, words, evidence, ts_ms, number, "host_cpu",
                 len(run.devices) - 1 if run.devices else 0, others / own)
        )  # fmt: skip
    return found


def _slow(cluster: str, job: str, runs: Sequence[Bench], ts_ms: int) -> list[Finding]:
    """Runs with less bus bandwidth than their like: the hosts that are in slow ones only."""
    found: list[Finding] = []
    for like in _alike(runs).values():
        if len(like) < LEAST_RUNS:
            continue
        speeds = {index: speed for index in like if (speed := _against(runs, like, index)) is not None}
        slow = {index for index, speed in speeds.items() if speed * SLOW <= 1.0}
        if not slow or len(slow) > len(speeds) / 2:
            continue
        fast = {host for index in speeds.keys() - slow for host in runs[index].hosts}
        blamed = {host for index in slow for host in runs[index].hosts} - fast
        single = all(len(runs[index].hosts) == 1 for index in like)
        names = sorted(blamed) or sorted({host for index in slow for host in runs[index].hosts})
        worst = min(speeds[index] for index in slow)
        evidence = tuple(
            f"{', '.join(runs[index].hosts)}: {1 - speeds[index]:.0%} less bus bandwidth than the median of "
            f"{len(speeds)} like runs"
            for index in sorted(slow, key=lambda i: speeds[i])[:6]
        )
        words = f"{', '.join(names[:4])}: {1 - worst:.0%} less bus bandwidth than like runs"
        for name in names if blamed else [""]:
            kind: Kind = "degradation" if single else "slow_link"
            subject = (
                Subject(scope="node", job=job, node=name)
                if name
                else Subject(scope="group", job=job, group=f"of hosts {', '.join(names[:8])}")
            )
            cause: Cause = "unknown" if single else "fabric_link"
            found.append(
                _say(cluster, subject, kind, cause, 0.8 if name else 0.6, words, evidence, ts_ms, len(found), None, 0,
                     1 / worst)
            )  # fmt: skip
    return found


def _alike(runs: Sequence[Bench]) -> dict[tuple[object, ...], list[int]]:
    """Runs that may be compared: same test, ranks, hosts and GPU; by their number. One run a set of hosts, the last."""
    last: dict[tuple[object, ...], dict[tuple[str, ...], int]] = {}
    for index, run in enumerate(runs):
        if run.rows and run.devices:
            row = run.rows[0]
            # Old tables do not name the test; the factor between its two bandwidths tells tests apart.
            factor = max((r.busbw_gbs / r.algbw_gbs for r in run.rows if r.algbw_gbs > 1.0), default=0.0)
            test = run.test or f"{row.operation} {factor:.1f}"
            key = (test, row.type, len(run.devices), len(run.hosts), run.devices[0].info)
            last.setdefault(key, {})[run.hosts] = index
    return {key: list(by_host.values()) for key, by_host in last.items()}


def _against(runs: Sequence[Bench], like: Sequence[int], index: int) -> float | None:
    """A run's bus bandwidth as a share of the median of all like runs, over the sizes that are bound by bandwidth:
    those whose median reaches half of the best."""
    tables = {i: {(r.size_bytes, r.in_place): r.busbw_gbs for r in runs[i].rows if r.busbw_gbs > 0} for i in like}
    shared = set.intersection(*(set(table) for table in tables.values()))
    usual = {key: median(table[key] for table in tables.values()) for key in shared}
    best = max(usual.values(), default=0.0)
    shares = [tables[index][key] / value for key, value in usual.items() if value >= best / 2 > 0]
    return median(shares) if shares else None


def _where(job: str, run: Bench) -> Subject:
    if len(run.hosts) == 1:
        return Subject(scope="node", job=job, node=run.hosts[0])
    return Subject(scope="job", job=job)


def _say(
    cluster: str, subject: Subject, kind: Kind, cause: Cause, sure: float, words: str, evidence: Sequence[str],
    ts_ms: int, number: int, runner_up: Cause | None = None, victims: int = 0, slowdown: float | None = None,
) -> Finding:  # fmt: skip
    return Finding(
        cluster=cluster,
        ts_ms=ts_ms,
        id=episode_id(f"nccl_tests.{number}", kind, subject, ts_ms),
        revision=0,
        detector="nccl_tests",
        state="open",
        kind=kind,
        cause=cause,
        subject=subject,
        onset_ms=ts_ms,
        confidence=sure,
        runner_up=runner_up,
        victims=victims,
        slowdown=None if slowdown is None else round(slowdown, 3),
        summary=words[:280],
        evidence=tuple(Evidence(text=text[:300]) for text in evidence),
    )
