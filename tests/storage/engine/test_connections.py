"""Which request gets which connection."""

from typing import cast

import pytest

from storage.engine import connections as module
from storage.engine.connections import Connections
from storage.engine.database import Connection
from storage.engine.errors import ClickHouseError
from storage.engine.request import Session


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def held(clock: Clock) -> Connections:
    return Connections(lambda: cast(Connection, object()), clock)


def test_requests_at_the_same_time_have_connections_of_their_own(held: Connections) -> None:
    assert held.take(None, {}) is not held.take(None, {})


def test_a_connection_serves_again_where_it_has_the_settings(held: Connections) -> None:
    first = held.take(None, {"a": "1"})
    assert held.give_back(None, {"a": "1"}, first, clean=True) == []
    assert held.take(None, {}) is not first
    assert held.take(None, {"a": "2"}) is not first
    assert held.take(None, {"a": "1"}) is first
    assert held.give_back(None, {"a": "1"}, first, clean=False) == [first]
    assert held.take(None, {"a": "1"}) is not first


def test_few_connections_wait(held: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE", 1)
    one, two = held.take(None, {}), held.take(None, {})
    assert held.give_back(None, {}, one, clean=True) == []
    assert held.give_back(None, {}, two, clean=True) == [one]
    assert held.all() == [two]


def test_a_session_keeps_its_connection_until_its_time_is_over(held: Connections, clock: Clock) -> None:
    session = Session("s", timeout_s=10)
    first = held.take(session, {})
    assert held.give_back(session, {}, first, clean=False) == []
    clock.now_s = 9.0
    assert held.take(session, {"a": "1"}) is first
    assert held.give_back(session, {"a": "1"}, first, clean=True) == []
    clock.now_s = 19.0
    assert held.expired() == [first]
    with pytest.raises(ClickHouseError) as unknown:
        held.take(Session("s", must_exist=True), {})
    assert unknown.value.code == 372


def test_one_request_at_a_time_in_a_session(held: Connections, clock: Clock) -> None:
    session = Session("s", timeout_s=1)
    held.take(session, {})
    clock.now_s = 100.0
    assert held.expired() == []
    with pytest.raises(ClickHouseError) as locked:
        held.take(session, {})
    assert locked.value.code == 373


def test_a_session_can_be_closed(held: Connections) -> None:
    session = Session("s", close=True)
    connection = held.take(session, {})
    assert held.give_back(session, {}, connection, clean=True) == [connection]


def test_there_is_a_bound_on_sessions(held: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SESSIONS", 1)
    held.take(Session("a"), {})
    with pytest.raises(ClickHouseError) as full:
        held.take(Session("b"), {})
    assert full.value.code == 202
