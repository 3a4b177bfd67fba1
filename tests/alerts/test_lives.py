"""Random incident lives with random deaths of the alerter, an hour without the receiver, keys that change, clocks that
jump: one page opened and one closed for each life."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_clock import FakeClock
from msgspec.structs import replace
from pagerduty_receiver import ROUTING_KEY, PagerDutyReceiver

from alerts.alerter import Alerter
from alerts.pagerduty import PagerDuty
from alerts.settings import AlertsSettings
from bench.chaos.alerts import Message, play
from runtime.deadletters import TooManyBadMessages
from runtime.health import Counters
from schemas import AlertState, DeadLetter, Incident, Record
from schemas.codec import encode
from schemas.examples import EXAMPLES

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
OTHER_KEY = "f" * 32


def test_one_open_and_one_close_per_life_however_often_the_alerter_dies(tmp_path: Path) -> None:
    score = play(50, seed=7, folder=tmp_path)
    assert score.wrong == []
    assert score.opened == score.closed
    assert score.opened + score.silent == 50
    assert score.deaths > 10


class Desk:
    """One alerter against the local receiver: it may be restarted with other settings; what it stored is kept."""

    def __init__(self, receiver: PagerDutyReceiver) -> None:
        self.receiver, self.clock = receiver, FakeClock()
        self.states: dict[str, AlertState] = {}
        self.others: list[Record] = []
        self.start()

    def start(self, key: str = ROUTING_KEY, before: str = "", **settings: str) -> None:
        chosen = AlertsSettings(
            pagerduty_routing_key=key, pagerduty_routing_keys_before=before, pagerduty_url=self.receiver.url,
            pagerduty_ca=self.receiver.ca, **settings,
        )  # fmt: skip
        self.counters = Counters()
        known = list(self.states.values())
        self.alerter = Alerter("eos", [PagerDuty(chosen)], known, self.store, self.clock, self.counters)

    def store(self, record: Record) -> None:
        if isinstance(record, AlertState):
            self.states[record.key] = record
        else:
            self.others.append(record)

    def news(self, revision: int, *, id_: str = "i-1", over: bool = False, **changes: object) -> None:
        change = "resolve" if over else "open" if revision == 0 else "update"
        state = "resolved" if over else "confirmed"
        told = replace(INCIDENT, id=id_, revision=revision, change=change, state=state, **changes)
        self.alerter.accept([Message(encode(told))])

    def run(self, seconds: float = 1.0, step_s: float = 1.0) -> None:
        for _ in range(max(1, int(seconds / step_s))):
            self.alerter.deliver()
            self.clock.advance(step_s)

    @property
    def status(self) -> str:
        return self.states["pagerduty/i-1"].status


@pytest.fixture
def desk(tmp_path: Path) -> "Desk":
    with PagerDutyReceiver(tmp_path) as receiver:
        yield Desk(receiver)  # type: ignore[misc]


def test_a_receiver_that_is_down_for_an_hour_gets_what_is_still_open_and_nobody_is_paged_for_the_rest(
    desk: Desk,
) -> None:
    desk.receiver.choose = lambda: 503
    desk.news(0)
    desk.run(10)
    for number in range(2, 12):
        desk.news(0, id_=f"i-{number}")
    desk.run(600, step_s=5)
    for number in range(2, 7):
        desk.news(1, id_=f"i-{number}", over=True)
    desk.run(3000, step_s=10)
    assert desk.counters.gauges()["alerts_waiting"] > 0
    assert desk.counters.gauges()["alerts_oldest_s"] > 3600
    tries = desk.states["pagerduty/i-1"].attempts
    assert 3 < tries < 80, "it is asked about once a minute, not hammered"
    desk.receiver.choose = None
    desk.run(130)
    assert "i-1" in desk.receiver.opened
    assert {"i-7", "i-8", "i-9", "i-10", "i-11"} <= set(desk.receiver.opened)
    assert desk.receiver.open_now == {"i-1", "i-7", "i-8", "i-9", "i-10", "i-11"}
    never_tried = {s.incident for s in desk.states.values() if s.status == "suppressed"}
    assert not never_tried & set(desk.receiver.opened)
    assert never_tried, "what was over before it could be sent pages nobody"


def test_a_receiver_that_cannot_be_reached_pages_nobody_for_what_is_over(desk: Desk) -> None:
    desk.alerter = Alerter(
        "eos",
        [PagerDuty(AlertsSettings(pagerduty_routing_key=ROUTING_KEY, pagerduty_url="https://127.0.0.1:1/v2"))],
        [],
        desk.store,
        desk.clock,
        desk.counters,
    )
    desk.news(0)
    desk.run(5)
    assert desk.states["pagerduty/i-1"].attempts > 1
    desk.news(1, over=True)
    assert desk.status == "suppressed", "it certainly never arrived"
    desk.start()
    desk.run(5)
    assert desk.receiver.events == []


def test_a_page_is_closed_where_it_was_opened_when_the_key_changes(desk: Desk) -> None:
    desk.receiver.keys.add(OTHER_KEY)
    desk.news(0)
    desk.run()
    desk.start(key=OTHER_KEY, before=ROUTING_KEY)
    desk.news(0, id_="i-2")
    desk.news(1, cause="leak")
    desk.news(2, over=True)
    desk.run(3)
    assert desk.receiver.open_at == {ROUTING_KEY: set(), OTHER_KEY: {"i-2"}}
    assert desk.receiver.dropped == []


def test_what_is_open_moves_to_the_new_key_when_the_old_one_is_taken_away(desk: Desk) -> None:
    desk.receiver.keys.add(OTHER_KEY)
    desk.news(0)
    desk.run()
    desk.start(key=OTHER_KEY)
    desk.run()
    assert desk.receiver.open_at[OTHER_KEY] == {"i-1"}, "the people of today are told at once"
    assert desk.counters.gauges()["alerts_orphaned"] == 1
    assert "can only be closed by hand" in desk.alerter.note()
    desk.news(1, over=True)
    desk.run(2)
    assert desk.receiver.open_at[OTHER_KEY] == set()


def test_what_is_over_under_a_key_that_is_gone_is_said_to_need_a_hand(desk: Desk) -> None:
    desk.news(0)
    desk.run()
    desk.news(1, over=True)
    desk.start(key=OTHER_KEY)
    desk.run(2)
    state = desk.states["pagerduty/i-1"]
    assert (state.status, state.response) == ("rejected", "its key is gone: close the page by hand")
    assert len(desk.receiver.events) == 1


def test_a_revoked_key_keeps_everything_until_another_is_put_in(desk: Desk) -> None:
    desk.receiver.keys.clear()
    desk.news(0)
    desk.run(1000, step_s=5)
    assert (desk.status, desk.receiver.events) == ("intent", [])
    assert desk.states["pagerduty/i-1"].attempts <= 4, "a refused key is tried every five minutes"
    assert desk.counters.gauges()["alerts_keys_refused"] == 1
    assert "refuses the key of default#" in desk.alerter.note()
    assert ROUTING_KEY not in desk.alerter.note()
    desk.receiver.keys.add(OTHER_KEY)
    desk.start(key=OTHER_KEY)
    desk.run(2)
    assert desk.receiver.opened == ["i-1"]
    assert desk.alerter.note() == ""


def test_a_clock_that_jumps_stops_and_repeats_nothing(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.receiver.behaviour = [503, 202]
    desk.news(0)
    desk.run()
    desk.clock.step(-86_400)
    desk.run(5)
    assert desk.receiver.opened == ["i-1"]
    desk.clock.step(7 * 86_400)
    desk.news(1, over=True)
    desk.run(5)
    assert (desk.receiver.closed, len(desk.receiver.events)) == (["i-1"], 2)
    assert desk.counters.totals()["clock_jumps"] == 2
    assert "the clock was set by -86400 s" in caplog.text


def test_a_restart_repeats_nothing_that_was_answered(desk: Desk) -> None:
    desk.news(0)
    desk.run()
    desk.start()
    desk.news(0)
    desk.run(5)
    assert len(desk.receiver.events) == 1


def test_a_refused_event_is_in_the_log_without_its_secrets(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.receiver.behaviour = [400]
    evidence = replace(INCIDENT.evidence[0], text="login failed: password=hunter2hunter2")
    desk.news(0, evidence=(evidence,))
    desk.run()
    assert desk.status == "rejected"
    assert "refused for good" in caplog.text
    assert "hunter2" not in caplog.text + str(desk.receiver.bodies)
    assert ROUTING_KEY not in caplog.text


def test_a_rate_limit_loses_nothing_and_the_gravest_go_first(desk: Desk) -> None:
    desk.receiver.limit, desk.receiver.now = 20, desk.clock.monotonic
    for number in range(60):
        desk.news(0, id_=f"i-{number}", severity="critical" if number >= 50 else "info", kind="degradation")
    desk.run(2)
    assert {f"i-{n}" for n in range(50, 60)} <= set(desk.receiver.opened)
    desk.run(1500, step_s=10)
    assert len(desk.receiver.opened) == 60
    assert desk.receiver.limited < 20, "after a 429 the key is left alone"


def test_garbage_goes_to_the_dead_letters_and_a_flood_of_it_stops_the_alerter(desk: Desk) -> None:
    desk.alerter.accept([Message(b"\xc1", offset=5)])
    (letter,) = desk.others
    assert isinstance(letter, DeadLetter)
    assert (letter.origin_offset, letter.reason) == (5, "not_msgpack")
    flood: Callable[[], None] = lambda: desk.alerter.accept([Message(b"\xff\xff")] * 200)  # noqa: E731
    with pytest.raises(TooManyBadMessages):
        flood()
