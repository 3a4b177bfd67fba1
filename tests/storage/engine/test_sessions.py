"""Which request gets which connection."""

from typing import cast

import pytest

from storage.engine import sessions as module
from storage.engine.database import Connection
from storage.engine.errors import ClickHouseError
from storage.engine.request import Session
from storage.engine.sessions import Sessions


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def held(clock: Clock) -> Sessions:
    return Sessions(lambda: cast(Connection, object()), clock)


def test_a_request_without_a_session_has_a_connection_of_its_own(held: Sessions) -> None:
    one, two = held.take(None), held.take(None)
    assert one is not two
    assert held.give_back(None, one) == [one]


def test_a_session_keeps_its_connection_until_its_time_is_over(held: Sessions, clock: Clock) -> None:
    session = Session("s", timeout_s=10)
    first = held.take(session)
    assert held.give_back(session, first) == []
    clock.now_s = 9.0
    assert held.take(session) is first
    assert held.give_back(session, first) == []
    clock.now_s = 19.0
    assert held.expired() == [first]
    with pytest.raises(ClickHouseError) as unknown:
        held.take(Session("s", must_exist=True))
    assert unknown.value.code == 372


def test_one_request_at_a_time_in_a_session(held: Sessions, clock: Clock) -> None:
    session = Session("s", timeout_s=1)
    held.take(session)
    clock.now_s = 100.0
    assert held.expired() == []
    with pytest.raises(ClickHouseError) as locked:
        held.take(session)
    assert locked.value.code == 373


def test_a_session_can_be_closed(held: Sessions) -> None:
    session = Session("s", close=True)
    connection = held.take(session)
    assert held.give_back(session, connection) == [connection]


def test_there_is_a_bound_on_sessions(held: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 1)
    held.take(Session("a"))
    with pytest.raises(ClickHouseError) as full:
        held.take(Session("b"))
    assert full.value.code == 202
