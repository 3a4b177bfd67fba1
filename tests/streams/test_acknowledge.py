"""Only an unbroken run of finished events, from the first one taken, may ever be committed."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from streams.acknowledge import Offsets, Token


def test_nothing_is_committable_before_the_first_event_is_finished() -> None:
    offsets = Offsets(100)
    assert all(offsets.take(n) for n in (100, 101, 102))
    offsets.finish(101)
    offsets.finish(102)
    assert (offsets.committable, offsets.open) == (None, 3)
    offsets.finish(100)
    assert (offsets.committable, offsets.open) == (103, 0)


def test_only_the_next_event_is_taken() -> None:
    offsets = Offsets(5)
    assert [offsets.take(n) for n in (4, 6, 5, 5, 6, 8, 7)] == [False, False, True, False, True, False, True]
    assert offsets.next == 8


def test_what_is_gone_does_not_hold_up_the_rest_and_is_counted() -> None:
    offsets = Offsets(5)
    offsets.take(5)
    assert offsets.skip_to(3) == 0
    assert offsets.skip_to(10) == 4
    offsets.take(10)
    offsets.finish(10)
    assert offsets.committable is None
    offsets.finish(5)
    assert offsets.committable == 11


def test_a_token_finishes_its_own_event() -> None:
    offsets = Offsets(3)
    offsets.take(3)
    Token(offsets, "node-frames", 0, 3).finish()
    assert offsets.committable == 4


@given(gaps=st.lists(st.integers(1, 3), min_size=1, max_size=40), order=st.randoms(use_true_random=False))
def test_what_is_committable_never_passes_an_open_event_and_ends_behind_the_last(
    gaps: list[int], order: Random
) -> None:
    offsets = Offsets(7)
    taken: list[int] = []
    for gap in gaps:
        taken.append((taken[-1] if taken else 7) + gap)
        offsets.skip_to(taken[-1])
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
