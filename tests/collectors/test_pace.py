"""Ticks on whole seconds of a wall clock that may be late, early or set by somebody."""

from collections.abc import Iterator
from itertools import islice

from fake_clock import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from collectors.agent.pace import ticks

T0 = 1_764_504_000_000


def run(clock: FakeClock, interval_s: float = 1.0) -> tuple[Iterator[int], list[int]]:
    missed: list[int] = []
    return ticks(clock, interval_s, lambda: False, missed.append), missed


def test_ticks_are_whole_seconds_one_by_one() -> None:
    clock = FakeClock(T0 + 300)
    made, missed = run(clock)
    assert list(islice(made, 4)) == [T0 + 1000, T0 + 2000, T0 + 3000, T0 + 4000]
    assert clock.slept == [0.7, 1.0, 1.0, 1.0]
    assert missed == []


def test_work_within_the_second_does_not_move_the_ticks() -> None:
    clock = FakeClock(T0)
    made, missed = run(clock)
    found = []
    for tick in islice(made, 5):
        found.append(tick)
        clock.advance(0.8)
    assert found == [T0 + 1000 * i for i in range(1, 6)]
    assert missed == []


def test_a_late_tick_skips_what_it_missed_and_never_bunches() -> None:
    clock = FakeClock(T0)
    made, missed = run(clock)
    assert next(made) == T0 + 1000
    clock.advance(3.5)
    assert next(made) == T0 + 5000
    assert next(made) == T0 + 6000
    assert missed == [3]


def test_a_clock_set_forward_goes_on_from_there() -> None:
    clock = FakeClock(T0)
    made, missed = run(clock)
    next(made)
    clock.step(86_400)
    assert next(made) == T0 + 86_402_000
    assert missed == []  # nobody was late


def test_a_clock_set_back_goes_on_from_there() -> None:
    clock = FakeClock(T0)
    made, _ = run(clock)
    next(made)
    clock.step(-3600)
    assert list(islice(made, 2)) == [T0 - 3_598_000, T0 - 3_597_000]


def test_a_sleep_that_ends_a_hair_early_belongs_to_its_tick() -> None:
    class Hasty(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds - 0.001)

    made, _ = run(Hasty(T0))
    assert list(islice(made, 3)) == [T0 + 1000, T0 + 2000, T0 + 3000]


def test_other_intervals() -> None:
    made, _ = run(FakeClock(T0 + 1), 0.5)
    assert list(islice(made, 2)) == [T0 + 500, T0 + 1000]
    made, _ = run(FakeClock(T0 + 1), 10)
    assert list(islice(made, 2)) == [T0 + 10_000, T0 + 20_000]


def test_it_ends_when_it_is_told() -> None:
    asked = iter([False, False, True])
    assert len(list(ticks(FakeClock(T0), 1.0, lambda: next(asked), lambda n: None))) == 2


@given(steps=st.lists(st.tuples(st.floats(0, 5), st.floats(-100, 100)), min_size=1, max_size=30))
def test_whatever_the_clock_does_ticks_are_whole_differ_and_take_time(steps: list[tuple[float, float]]) -> None:
    clock = FakeClock(T0 + 137)
    made, _ = run(clock)
    last = None
    for work, step in steps:
        before = clock.monotonic()
        tick = next(made)
        assert tick % 1000 == 0
        assert tick != last
        assert clock.monotonic() - before <= 2.0
        last = tick
        clock.advance(work)
        clock.step(step)
