"""The argmin rule on one stream: straggler, jitter, slow link, and what is none of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.job.arrival import StreamArrival
from detectors.job.groups import Round, Stream

STREAM = Stream("0x1", "AllReduce", 1 << 24)
PERIOD_MS = 40


def play(arrival: StreamArrival, times: np.ndarray, start: int = 0, whole: bool = True) -> int | None:
    """Feed rounds of shape (rounds, ranks); the index of the first one after which it is in trouble."""
    for i, exec_us in enumerate(times):
        arrival.update(Round(STREAM, start + i, exec_us, 1_000_000 + (start + i) * PERIOD_MS, whole), 0)
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


@pytest.mark.parametrize("size", [3, 4, 8, 64])
def test_a_straggler_is_named_within_six_rounds_in_groups_of_any_size(size: int) -> None:
    arrival = StreamArrival(size)
    assert play(arrival, healthy(4, size)) is None
    assert play(arrival, late(healthy(6, size, 2), size - 1, 3000), 4) is not None
    assert arrival.says().late.nonzero()[0].tolist() == [size - 1]


def test_a_straggler_is_named_with_its_onset_and_delay() -> None:
    arrival = StreamArrival(8)
    play(arrival, healthy(4, 8))
    play(arrival, late(healthy(6, 8, 2), 5, 3000), 4)
    says = arrival.says()
    assert says.late.nonzero()[0].tolist() == [5]
    assert says.onset_sn[5] == 4
    assert not says.slow
    assert 2000 < says.delay_us[5] < 3200


def test_where_somebody_is_often_late_more_rounds_are_needed() -> None:
    """The same lateness says less in a stream whose rounds always have a late one, each time another."""
    random = np.random.default_rng(5)
    restless = healthy(60, 4)
    for row, who in enumerate(random.integers(0, 4, 60)):
        restless[row] += 2000.0
        restless[row, who] -= 2000.0
    arrival = StreamArrival(4)
    assert play(arrival, restless) is None
    assert play(arrival, late(healthy(6, 4, 2), 3, 2000), 60) is None
    assert play(arrival, late(healthy(20, 4, 3), 3, 2000), 66) is not None


def test_a_rank_that_was_never_on_time_is_named_as_behind_its_peers() -> None:
    arrival = StreamArrival(8)
    assert play(arrival, late(healthy(12, 8), 5, 5000)) is not None
    says = arrival.says()
    assert says.late.nonzero()[0].tolist() == [5]
    assert says.standing.nonzero()[0].tolist() == [5]
    assert 4500 < says.delay_us[5] < 5500
    small = StreamArrival(8)
    assert play(small, late(healthy(40, 8), 5, 300)) is None, "what costs little may be a matter of place"


def test_a_straggler_is_named_though_a_member_is_never_heard() -> None:
    arrival = StreamArrival(8)
    rounds = np.concatenate([healthy(4, 8), late(healthy(8, 8, 2), 5, 3000)])
    rounds[:, 2] = np.nan
    assert play(arrival, rounds, whole=False) is not None
    assert arrival.says().late.nonzero()[0].tolist() == [5]


def test_a_transfer_is_not_judged_while_the_shortest_time_may_be_missing() -> None:
    arrival = StreamArrival(8)
    rounds = np.concatenate([healthy(4, 8), healthy(10, 8, 2, t_us=7800)])
    rounds[:, 2] = np.nan
    assert play(arrival, rounds, whole=False) is None
    assert not arrival.says().slow


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
@given(st.integers(0, 10_000), st.sampled_from([2, 4, 8, 16]), st.floats(1000, 100_000))
def test_healthy_noise_troubles_nobody(seed: int, ranks: int, t_us: float) -> None:
    assert play(StreamArrival(ranks), healthy(300, ranks, seed, t_us)) is None


def test_noise_as_large_as_the_operation_itself_troubles_one_stream_in_fifty_at_most() -> None:
    """One of two ranks is then now and then first so often, and by so much, that it looks late."""
    assert sum(play(StreamArrival(2), healthy(300, 2, seed, 100.0)) is not None for seed in range(100)) <= 2


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


def test_a_rank_late_in_every_third_round_is_named_all_the_time_and_no_longer_than_that() -> None:
    arrival = StreamArrival(8)
    play(arrival, healthy(40, 8))
    calm = healthy(90, 8, 2)
    stalling = np.where(np.arange(90)[:, None] % 3 == 0, late(calm, 5, 3000), calm)
    first = play(arrival, stalling, 40)
    assert first is not None
    for i in range(first + 1, 90):
        play(arrival, stalling[i : i + 1], 40 + i)
        assert arrival.says().late.nonzero()[0].tolist() == [5]
    for i, exec_us in enumerate(healthy(10, 8, 3)):
        play(arrival, exec_us[None], 130 + i)
    assert not arrival.says().late.any()


def test_what_a_rank_causes_adds_up_over_a_minute_whatever_its_rhythm() -> None:
    arrival = StreamArrival(4)
    play(arrival, healthy(40, 4))
    for i, exec_us in enumerate(late(healthy(4, 4, 2), 1, 3000)):
        arrival.update(Round(STREAM, 40 + i, exec_us, 1_003_000 + i * 1000), 0)
    assert arrival.says().caused_us[1] == pytest.approx(4 * 3000, rel=0.1)
    arrival.update(Round(STREAM, 44, healthy(1, 4, 3)[0], 1_066_000), 0)
    assert arrival.says().caused_us[1] == pytest.approx(4 * 3000 / np.e, rel=0.1)


def test_it_recovers() -> None:
    arrival = StreamArrival(8)
    play(arrival, healthy(20, 8))
    assert play(arrival, late(healthy(20, 8, 2), 5, 3000), 20) is not None
    for i, row in enumerate(healthy(60, 8, 4)):
        arrival.update(Round(STREAM, 40 + i, row, 1_000_000 + (40 + i) * PERIOD_MS), 0)
    assert not arrival.troubled
