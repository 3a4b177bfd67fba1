"""What is logged again and again."""

import logging

from runtime.log import KINDS, Libraries, Repeats


def record(name: str, message: str, *values: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, message, values, None)


def test_a_flood_of_a_librarys_words_is_one_line_an_interval() -> None:
    now = [0.0]
    libraries = Libraries(Repeats(10.0, lambda: now[0]))
    words = [record("aiokafka.client", "Unable connect to node %s: %s", 1, n) for n in range(1000)]
    assert [one.getMessage() for one in words if libraries.filter(one)] == ["Unable connect to node 1: 0"]
    now[0] = 10.0
    again = record("aiokafka.client", "Unable connect to node %s: %s", 1, "100 %")
    assert libraries.filter(again)
    assert again.getMessage() == "Unable connect to node 1: 100 % (999 more like this)"


def test_our_own_words_are_never_held_back() -> None:
    libraries = Libraries(Repeats(10.0, lambda: 0.0))
    assert all(libraries.filter(record("streams.worker", "the same")) for _ in range(3))


def test_what_is_remembered_has_a_bound() -> None:
    libraries = Libraries(Repeats(10.0, lambda: 0.0))
    assert all(libraries.filter(record("faust", f"task {n}")) for n in range(3 * KINDS))
