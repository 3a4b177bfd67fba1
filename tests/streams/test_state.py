"""What is stored comes back, in pieces that fit, at moments spread over the minute."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import UserError
from streams.lane import Key, Write
from streams.state import CHECKPOINT_MS, LIMIT_BYTES, VERSION, Kind, Piece, States, StateTooLarge, _encode, read

NODE = Key("c", "n1")


class Changelog:
    """A compacted topic: the newest value of each key, none where it was deleted."""

    def __init__(self) -> None:
        self.table: dict[bytes, bytes] = {}

    def apply(self, writes: tuple[Write, ...]) -> int:
        for write in writes:
            if write.value is None:
                self.table.pop(write.key, None)
            else:
                self.table[write.key] = write.value
        return len(writes)


kinds: st.SearchStrategy[Kind] = st.sampled_from(["decisions", "learning", "position"])
parts = st.dictionaries(st.text(max_size=5), st.binary(max_size=20), max_size=4)
keys = st.builds(Key, st.text(max_size=3), st.text(max_size=3))


@given(st.lists(st.tuples(keys, kinds, parts), max_size=15))
def test_what_was_written_last_is_what_is_read(history: list[tuple[Key, Kind, dict[str, bytes]]]) -> None:
    changelog, states = Changelog(), States({})
    expected: dict[tuple[Key, Kind], dict[str, bytes]] = {}
    for ts, (key, kind, one) in enumerate(history):
        changelog.apply(states.write(key, kind, one, ts))
        expected[key, kind] = one
        if ts == len(history) // 2:
            states = States(read(changelog.table.items()))  # a restart in between
    saved = read(changelog.table.items())
    for (key, kind), one in expected.items():
        assert (saved[key].of(kind) if key in saved else {}) == one


def test_a_part_that_did_not_change_costs_no_write_even_after_a_restart() -> None:
    changelog, states = Changelog(), States({})
    assert changelog.apply(states.write(NODE, "learning", {"a": b"1", "b": b"2"}, 10)) == 2
    assert changelog.apply(states.write(NODE, "learning", {"a": b"1", "b": b"3"}, 20)) == 1
    again = States(read(changelog.table.items()))
    assert again.write(NODE, "learning", {"a": b"1", "b": b"3"}, 30) == ()


def test_forgetting_a_key_deletes_all_of_it_and_nothing_else() -> None:
    changelog, states = Changelog(), States({})
    other = Key("c", "n2")
    for key in (NODE, other):
        changelog.apply(states.write(key, "decisions", {"": b"d"}, 1))
        changelog.apply(states.write(key, "learning", {"x": b"l"}, 2))
    assert changelog.apply(states.forget(NODE)) == 2
    assert set(read(changelog.table.items())) == {other}


def test_the_newest_event_time_of_a_key_is_kept() -> None:
    changelog, states = Changelog(), States({})
    changelog.apply(states.write(NODE, "decisions", {"": b"d"}, 700))
    changelog.apply(states.write(NODE, "learning", {"": b"l"}, 900))
    assert read(changelog.table.items())[NODE].ts_ms == 900


def test_a_piece_that_is_too_large_is_refused_by_name() -> None:
    with pytest.raises(StateTooLarge, match=r"learning 'big' of n1: 524289 bytes, 524288 allowed"):
        States({}).write(NODE, "learning", {"big": bytes(LIMIT_BYTES + 1)}, 1)


def test_state_of_a_newer_version_is_one_line_that_says_what_to_do() -> None:
    row = (_encode(("c", "n1", "decisions", "")), _encode(Piece(VERSION + 1, 1, b"")))
    with pytest.raises(UserError, match=r"state of n1 has version 2.*upgrade the worker"):
        read([row])


def test_every_key_is_due_once_a_minute_at_a_moment_of_its_own() -> None:
    states = States({})
    fleet = [Key("c", f"node-{n}") for n in range(200)]
    writes_per_s = []
    for second in range(181):
        writes_per_s.append(sum(states.due(key, 1_000_000_000 + 1000 * second) for key in fleet))
    assert sum(writes_per_s) == 3 * len(fleet)
    assert max(writes_per_s) < 15  # 3.3 on average


def test_a_new_key_waits_for_its_moment() -> None:
    states = States({})
    assert not states.due(NODE, 5)
    assert states.due(NODE, 5 + CHECKPOINT_MS)
