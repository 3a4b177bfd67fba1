"""Storms: one fault with thousands of findings is one page with its members; many faults at once lose nothing."""

from msgspec.structs import replace

from alerts.manners import HOLDS, STORM_PAGES
from alerts.outbox import Outbox
from alerts.pagerduty import PagerDuty
from alerts.receiver import Answer, Outcome
from alerts.settings import AlertsSettings
from detectors.incident.book import IncidentBook
from schemas import AlertState, Finding, Incident
from schemas.examples import EXAMPLES
from schemas.finding import Evidence, Subject
from schemas.identity import episode_id

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
T0 = 1_790_000_000_000


def finding(detector: str, subject: Subject, kind: str, cause: str, ts_ms: int, **more: object) -> Finding:
    given = {"state": "open", "revision": 0, "confidence": 0.9} | more
    return Finding(
        cluster="eos", ts_ms=ts_ms, id=episode_id(detector, kind, subject, T0), detector=detector, kind=kind,
        cause=cause, subject=subject, onset_ms=T0, evidence=(Evidence(text=f"{subject.label()} is hot"),),
        summary=f"{subject.label()} is hot", **given,
    )  # fmt: skip


def heat(number: int, ts_ms: int, **more: object) -> Finding:
    subject = Subject(scope="gpu", node=f"r01-t{number // 4 % 18:02}", gpu=f"GPU-{number % 72}")
    return finding(f"node.thermal{number}", subject, "hardware", "thermal_throttle", ts_ms, **more)


def flow(ts_ms: int, **more: object) -> Finding:
    return finding("rack.flow", Subject(scope="rack", rack="r01"), "cooling", "coolant_flow", ts_ms, **more)


class Desk:
    """An outbox whose requests are all taken; time is the findings'."""

    def __init__(self) -> None:
        pagerduty = PagerDuty(AlertsSettings(pagerduty_routing_key="0" * 32))
        self.box = Outbox("pagerduty", pagerduty.render, route=pagerduty.route, knows=pagerduty.knows, holds=HOLDS)
        self.sent: list[AlertState] = []

    def take(self, incidents: list[Incident], now_ms: int) -> None:
        for incident in incidents:
            self.box.offer(incident)
        while (state := self.box.next(now_ms / 1000, now_ms)) is not None:
            self.sent.append(state)
            self.box.settle(state.incident, Answer(Outcome.DELIVERED, "202"), now_ms / 1000)


def test_a_storm_of_10_000_findings_of_one_cooling_fault_is_one_page_with_its_members() -> None:
    # The GPUs' heat is told before the rack's own verdict, as it happens: it must not page by itself.
    book, desk = IncidentBook("eos"), Desk()
    for number in range(72):
        desk.take(book.apply(heat(number, T0 + 10 * number)), T0 + 10 * number)
    desk.take(book.apply(flow(T0 + 5_000)), T0 + 5_000)
    for number in range(72, 10_000):
        desk.take(book.apply(heat(number, T0 + 5_000 + 2 * number)), T0 + 5_000 + 2 * number)
    end = T0 + 60_000
    desk.take(book.apply(flow(end, state="close", revision=1)), end)
    for number in range(10_000):
        desk.take(book.apply(heat(number, end + number, state="close", revision=1)), end + number)
    for second in range(90):
        now = end + 10_000 + 1000 * second
        desk.take(book.advance(now), now)
    actions = [state.action for state in desk.sent]
    assert actions[0] == "trigger"
    assert actions.count("trigger") == actions.count("resolve") == 1
    assert len({state.incident for state in desk.sent}) == 1
    assert len(actions) < 10, "its growth is told once a minute"
    said = b" ".join(state.body for state in desk.sent).decode()
    assert all(f"r01-t{tray:02}" in said for tray in range(18))
    assert "Coolant flow: rack r01" in said
    assert desk.box.backlog() == 0


def test_many_faults_at_once_page_the_gravest_first_and_the_rest_when_the_storm_is_over() -> None:
    desk = Desk()
    risk = replace(INCIDENT, severity="warning", slowdown=None, victims=0, cause="pcie_degraded", kind="hardware")
    news = [replace(risk, id=f"i-{n}", culprits=(Subject(scope="node", node=f"n{n}"),)) for n in range(60)]
    news += [replace(INCIDENT, id=f"i-grave-{n}") for n in range(10)]
    desk.take(news, T0)
    first = [state.incident for state in desk.sent]
    assert set(first[:10]) == {f"i-grave-{n}" for n in range(10)}
    assert len(first) == STORM_PAGES
    assert desk.box.held() == 70 - STORM_PAGES
    for minute in range(1, 30):
        desk.take([], T0 + 60_000 * minute)
    assert {state.incident for state in desk.sent} == {incident.id for incident in news}
