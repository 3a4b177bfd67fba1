"""The argmin rule on one stream: straggler, jitter, slow link, and what is none of them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.arrival import StreamArrival
from detectors.groups import Round, Stream

STREAM = Stream("0x1", "AllReduce", 1 << 24)
PERIOD_MS = 40


def play(arrival: StreamArrival, times: np.ndarray, start: int = 0) -> int | None:
    """Feed rounds of shape (rounds, ranks); the index of the first one after which it is in trouble."""
    for i, exec_us in enumerate(times):
        arrival.update(Round(STREAM, start + i, exec_us, 1_000_000 + (start + i) * PERIOD_MS), 0)
        if arrival.troubled:
            return i
    return None


def healthy(rounds: int, ranks: int, seed: int = 1, t_us: float = 2600.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return t_us * rng.uniform(0.98, 1.02, (rounds, 1)) + rng.uniform(0, 100, (rounds, ranks))


def late(times: np.ndarray, rank: int, delay_us: float) -> np.ndarray:
    """Rank arrives `delay_us` after the others, who wait for it."""
    out = times + delay_us
    out[:, rank] -= delay_us
    return out


def test_a_straggler_is_named_within_six_rounds_of_eight_ranks() -> None:
    arrival = StreamArrival(8)
    assert play(arrival, healthy(4, 8)) is None
    assert play(arrival, late(healthy(6, 8, 2), 5, 3000), 4) == 5
    says = arrival.says()
    assert says.late.nonzero()[0].tolist() == [5]
    assert says.onset_sn[5] == 4
    assert not says.slow
    assert 2000 < says.delay_us[5] < 3200


def test_a_slow_transfer_is_nobodys_lateness() -> None:
    arrival = StreamArrival(8)
    assert play(arrival, healthy(4, 8)) is None
    assert play(arrival, healthy(6, 8, 2, t_us=7800), 4) == 4
    says = arrival.says()
    assert says.slow
    assert not says.late.any()
    assert says.slow_onset_sn == 4
    assert says.t_us / says.t_past_us > 2.5


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, 4, 8, 16]), st.floats(100, 100_000))
def test_healthy_noise_troubles_nobody(seed: int, ranks: int, t_us: float) -> None:
    assert play(StreamArrival(ranks), healthy(300, ranks, seed, t_us)) is None


def test_wandering_lateness_is_nobodys() -> None:
    times, rng = healthy(400, 8), np.random.default_rng(3)
    for row in times[50:]:
        rank = rng.integers(8)
        row += 3000
        row[rank] -= 3000
    assert play(StreamArrival(8), times) is None


def test_a_static_offset_is_usual() -> None:
    assert play(StreamArrival(8), late(healthy(200, 8), 2, 400)) is None


def test_lateness_too_small_to_cost_anything_is_left_alone() -> None:
    arrival = StreamArrival(8)
    quiet = 2600 + np.random.default_rng(1).uniform(0, 4, (100, 8))
    assert play(arrival, quiet) is None
    assert play(arrival, late(quiet, 5, 0.005 * PERIOD_MS * 1000), 100) is None


def test_two_late_ranks_are_both_named() -> None:
    arrival = StreamArrival(16)
    times = healthy(40, 16)
    times[20:] += 3000
    times[20:, [3, 9]] -= 3000
    assert play(arrival, times) is not None
    assert arrival.says().late.nonzero()[0].tolist() == [3, 9]


def test_an_absent_rank_is_no_culprit() -> None:
    times = healthy(60, 16)
    times[10:, 4] = np.nan
    assert play(StreamArrival(16), times) is None


def test_it_recovers() -> None:
    arrival = StreamArrival(8)
    play(arrival, healthy(20, 8))
    assert play(arrival, late(healthy(20, 8, 2), 5, 3000), 20) is not None
    for i, row in enumerate(healthy(60, 8, 4)):
        arrival.update(Round(STREAM, 40 + i, row, 1_000_000 + (40 + i) * PERIOD_MS), 0)
    assert not arrival.troubled
