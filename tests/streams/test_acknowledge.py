"""Only an unbroken run of finished events, from the first one taken, may ever be committed."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from streams.acknowledge import Offsets, Token


def test_nothing_is_committable_before_the_first_event_is_finished() -> None:
    offsets = Offsets()
    assert all(offsets.take(n) for n in (100, 101, 102))
    offsets.finish(101)
    offsets.finish(102)
    assert (offsets.committable, offsets.open) == (None, 3)
    offsets.finish(100)
    assert (offsets.committable, offsets.open) == (103, 0)


def test_an_event_delivered_again_is_not_taken_again() -> None:
    offsets = Offsets()
    assert offsets.take(5)
    assert offsets.take(6)
    offsets.finish(5)
    assert not offsets.take(5)
    assert not offsets.take(6)
    assert offsets.take(7)


def test_offsets_that_nobody_delivered_do_not_hold_up_the_rest_and_are_counted() -> None:
    offsets = Offsets()
    for n in (5, 6, 10):
        offsets.take(n)
        offsets.finish(n)
    assert offsets.committable == 11
    assert offsets.missing == 3


def test_a_token_finishes_its_own_event() -> None:
    offsets = Offsets()
    offsets.take(3)
    Token(offsets, "node-frames", 0, 3).finish()
    assert offsets.committable == 4


@given(gaps=st.lists(st.integers(1, 3), min_size=1, max_size=40), order=st.randoms(use_true_random=False))
def test_what_is_committable_never_passes_an_open_event_and_ends_behind_the_last(
    gaps: list[int], order: Random
) -> None:
    offsets = Offsets()
    taken: list[int] = []
    for gap in gaps:
        taken.append((taken[-1] if taken else 7) + gap)
        assert offsets.take(taken[-1])
    left = list(taken)
    order.shuffle(left)
    before = -1
    while left:
        done = left.pop()
        offsets.finish(done)
        if order.random() < 0.2:
            offsets.finish(done)
        committable = offsets.committable
        assert committable is None or committable <= min(left, default=taken[-1] + 1)
        assert committable is None or committable >= before
        before = committable if committable is not None else before
        assert offsets.open >= len(left)
    assert offsets.committable == taken[-1] + 1
    assert offsets.open == 0
