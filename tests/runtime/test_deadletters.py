"""The brake lets single bad messages pass and stops at a flood."""

import pytest

from runtime.deadletters import KEPT_BYTES, Brake, TooManyBadMessages, dead_letter


def test_a_letter_keeps_origin_reason_and_the_first_bytes() -> None:
    letter = dead_letter("c", "writer", ("events", 2, 77), "not_msgpack", "x" * 5000, b"y" * 100_000, 1)
    assert letter.identity == ("c", "writer", "events", 2, 77)
    assert len(letter.payload) == KEPT_BYTES
    assert len(letter.detail) == 2000


def test_a_bad_message_now_and_then_never_brakes() -> None:
    brake = Brake(longest_run=5, ratio=0.5, window=10)
    for _ in range(100):
        brake.good(2)
        brake.bad("not_msgpack")


def test_a_run_of_bad_messages_brakes_with_what_to_do() -> None:
    brake = Brake(longest_run=5)
    for _ in range(4):
        brake.bad("future_version")
    with pytest.raises(TooManyBadMessages, match=r"future_version.*topics tail dead-letters"):
        brake.bad("future_version")


def test_more_than_the_ratio_of_a_full_window_brakes() -> None:
    brake = Brake(longest_run=100, ratio=0.5, window=10)
    for _ in range(3):
        brake.good()
        brake.bad("not_msgpack")
        brake.bad("not_msgpack")
    with pytest.raises(TooManyBadMessages, match="7 of the last 10"):
        brake.bad("not_msgpack")


def test_any_number_of_good_messages_is_heard_of_at_once() -> None:
    brake = Brake(longest_run=100, ratio=0.5, window=10)
    for _ in range(7):
        brake.bad("not_msgpack")
    brake.good(10**12)
    for _ in range(5):
        brake.bad("not_msgpack")
    with pytest.raises(TooManyBadMessages, match="6 of the last 10"):
        brake.bad("not_msgpack")
