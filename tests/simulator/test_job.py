"""The job in health: what detectors must not take for a fault."""

import numpy as np
from watched_fleet import watch

from simulator.effects import Effects
from simulator.job import Job, JobTick
from simulator.settings import FleetSettings


def run(ticks: int) -> list[JobTick]:
    topology = FleetSettings().topology()
    job = Job(topology, 0.96, np.random.default_rng(3))
    neutral, clock = Effects.neutral(topology), np.ones(topology.gpu_count)
    return [job.advance(tick * 1e6, neutral, clock) for tick in range(1, ticks + 1)]


def test_healthy_steps_vary_by_half_a_per_cent() -> None:
    steps = np.array([r.step_us.mean() for tick in run(200) for r in tick.reports])
    usual = steps[np.abs(steps / np.median(steps) - 1) < 0.02]
    assert 0.002 < usual.std() / usual.mean() < 0.006
    assert 0.95e6 < np.median(steps) < 0.99e6


def test_a_slow_step_comes_alone_now_and_then() -> None:
    steps = np.array([r.step_us.mean() for tick in run(600) for r in tick.reports])
    slow = np.flatnonzero(steps / np.median(steps) > 1.02)
    assert 1 <= len(slow) <= 8
    assert (np.diff(slow) > 1).all()


def test_last_to_arrive_wanders_in_health() -> None:
    world = [c for tick in run(60) for c in tick.completed if c.index == 5 and len(c.ranks) == 512]
    last = [int(c.ranks[c.exec_us.argmin()]) for c in world]
    assert len(last) > 50
    assert max(np.bincount(last)) <= len(last) // 4


def test_gpus_compute_most_of_a_tick_and_spin_in_collectives_for_the_rest() -> None:
    ticks = run(20)[2:]
    busy = np.array([tick.busy for tick in ticks])
    spin = np.array([tick.spin for tick in ticks])
    assert 0.85 < busy.mean() < 0.92
    assert 0.08 < spin.mean() < 0.15
    assert (busy + spin <= 1.0001).all()


def test_every_step_is_reported_once_by_every_rank() -> None:
    seen = [(r["step"], r["rank"]) for r in watch(20).steps]
    assert len(set(seen)) == len(seen)
    assert {rank for _, rank in seen} == set(range(16))


def test_a_step_may_be_longer_or_much_shorter_than_a_tick() -> None:
    long, short = watch(30, step_s=4.0), watch(10, step_s=0.1)
    assert 5 <= len({r["step"] for r in long.steps}) <= 8
    assert 80 <= len({r["step"] for r in short.steps}) <= 110
