"""The sequential test: wandering lateness is nobody's, the same one again and again is."""

import numpy as np
import pytest

from detectors.job.suspicion import Suspicion


def rounds(suspicion: Suspicion, size: int, late: list[list[int]]) -> list[int]:
    """The rounds (from 1) in which somebody was steady."""
    steady = []
    for number, names in enumerate(late, 1):
        mask = np.zeros(size, np.bool_)
        mask[names] = True
        suspicion.update(mask, size, number * 1000, number)
        if suspicion.steady.any():
            steady.append(number)
    return steady


@pytest.mark.parametrize(("size", "first"), [(2, 20), (4, 9), (8, 6), (64, 5), (512, 5)])
def test_the_larger_the_group_the_sooner_it_is_no_chance(size: int, first: int) -> None:
    assert rounds(Suspicion(size, 5), size, [[1]] * 30)[0] == first


def test_onset_is_the_first_round_of_the_run() -> None:
    suspicion = Suspicion(8, 5)
    rounds(suspicion, 8, [[], [], [3], [3], [3], [], [3], [3], [3], [3]])
    assert suspicion.steady.nonzero()[0].tolist() == [3]
    assert (suspicion.onset_ms[3], suspicion.onset_mark[3], suspicion.hits[3]) == (3000, 3, 7)


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_wandering_lateness_names_hardly_anybody(size: int) -> None:
    rng = np.random.default_rng(size)
    suspicion, named = Suspicion(size, 5), 0
    for number, rank in enumerate(rng.integers(0, size, 5000)):
        before = suspicion.steady.any()
        suspicion.update(np.arange(size) == rank, size, number, number)
        named += bool(suspicion.steady.any() and not before)
    assert named <= 1


def test_it_is_over_after_some_calm_rounds_and_not_before() -> None:
    suspicion = Suspicion(8, 5)
    steady = rounds(suspicion, 8, [[2]] * 30 + [[]] * 40)
    assert steady[-1] in range(40, 60)


def test_every_second_round_only_is_no_culprit_where_a_share_is_asked() -> None:
    beat: list[list[int]] = [[4], []] * 40
    assert rounds(Suspicion(16, 8), 16, beat)
    assert rounds(Suspicion(16, 8, 12), 16, beat) == []


def test_the_share_of_late_rounds_is_counted_from_the_onset() -> None:
    suspicion = Suspicion(8, 3)
    rounds(suspicion, 8, [[]] * 5 + [[2], [], [2], []])
    assert suspicion.share()[2] == 0.5


def test_candidates_may_be_added() -> None:
    suspicion = Suspicion(4, 5, 12)
    rounds(suspicion, 4, [[1]] * 3)
    suspicion.grow(8)
    assert rounds(suspicion, 8, [[1]] * 12)
    assert suspicion.steady.nonzero()[0].tolist() == [1]
