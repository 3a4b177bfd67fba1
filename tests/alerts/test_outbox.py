"""What is sent for an incident, in what order, and what a death may repeat."""

from msgspec.structs import replace

from alerts.outbox import Outbox
from alerts.receiver import Outcome
from schemas import AlertState, Incident
from schemas.examples import EXAMPLES

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))


def news(revision: int, **changes: object) -> Incident:
    change = {"change": "open" if revision == 0 else "update"} | changes
    return replace(INCIDENT, revision=revision, **change)


def over(revision: int) -> Incident:
    return news(revision, change="resolve", state="resolved")


def render(incident: Incident, action: str) -> bytes:
    return f"{action} {incident.id} r{incident.revision}".encode()


def outbox(*known: AlertState) -> Outbox:
    box = Outbox("pagerduty", render)
    box.restore(known)
    return box


def deliver(box: Outbox, outcome: Outcome = Outcome.DELIVERED, now_s: float = 0.0) -> list[AlertState]:
    attempted = box.due(now_s)
    for state in attempted:
        box.settle(state.incident, outcome, "202", now_s)
    return attempted


def test_trigger_update_resolve() -> None:
    box = outbox()
    assert box.offer(news(0)) is not None
    assert [s.body for s in deliver(box)] == [b"trigger i-00000000000000b2 r0"]
    assert box.offer(news(1, cause="thermal_throttle")) is not None
    assert [s.action for s in deliver(box)] == ["update"]
    assert box.offer(over(2)) is not None
    assert [s.action for s in deliver(box)] == ["resolve"]
    assert (box.open_count(), box.backlog()) == (0, 0)


def test_a_suspect_is_not_paged_until_confirmed() -> None:
    box = outbox()
    assert box.offer(news(0, state="suspect")) is None
    assert box.offer(news(1, state="confirmed")) is not None


def test_a_suspect_that_goes_away_is_never_paged() -> None:
    box = outbox()
    assert box.offer(news(0, state="suspect")) is None
    assert box.offer(over(1)) is None
    assert box.due(0.0) == []


def test_a_change_that_tells_nothing_new_is_not_sent() -> None:
    box = outbox()
    box.offer(news(0))
    deliver(box)
    assert box.offer(news(1, confidence=0.95)) is None
    assert box.offer(news(2, victims=510)) is None
    assert box.offer(news(3, victims=8)) is not None


def test_an_old_or_repeated_revision_is_ignored() -> None:
    box = outbox()
    box.offer(news(3))
    deliver(box)
    assert box.offer(news(3, cause="unknown")) is None
    assert box.offer(news(1, cause="unknown")) is None


def test_an_incident_over_before_the_first_try_is_never_paged() -> None:
    box = outbox()
    box.offer(news(0))
    stored = box.offer(over(1))
    assert stored is not None
    assert stored.status == "suppressed"
    assert box.due(0.0) == []
    assert box.offer(news(2, cause="unknown")) is None


def test_news_waits_behind_an_attempt_of_unknown_outcome() -> None:
    box = outbox()
    box.offer(news(0))
    (attempt,) = box.due(0.0)
    box.settle(attempt.incident, Outcome.RETRY, "timeout", 0.0)
    assert box.offer(over(1)) is None
    assert not box.may_commit()
    assert box.due(0.5) == [], "not before its back-off"
    (again,) = box.due(5.0)
    assert again.body == attempt.body, "repeated byte for byte"
    outcome, intent = box.settle(again.incident, Outcome.DELIVERED, "202", 5.0)
    assert (outcome.status, intent.action, intent.status) == ("delivered", "resolve", "intent")
    assert box.may_commit()


def test_the_newest_of_several_waiting_news_wins() -> None:
    box = outbox()
    box.offer(news(0))
    (attempt,) = box.due(0.0)
    box.offer(news(1, cause="unknown"))
    box.offer(news(2, cause="leak"))
    stored = box.settle(attempt.incident, Outcome.DELIVERED, "202", 0.0)
    assert [(s.action, s.revision) for s in stored] == [("trigger", 0), ("update", 2)]


def test_no_trigger_follows_an_attempted_resolve_even_after_a_death() -> None:
    box = outbox()
    box.offer(news(0))
    deliver(box)
    box.offer(over(1))
    (attempt,) = box.due(0.0)
    reborn = outbox(attempt)
    assert reborn.offer(news(2, cause="leak")) is None
    (again,) = reborn.due(0.0)
    assert (again.action, again.body) == ("resolve", attempt.body)


def test_an_intent_of_a_former_life_is_taken_up() -> None:
    box = outbox()
    intent = box.offer(news(0))
    assert intent is not None
    reborn = outbox(intent)
    assert reborn.offer(news(0)) is None, "the same revision read again"
    assert [s.body for s in deliver(reborn)] == [intent.body]


def test_a_rate_limit_waits_longer_than_an_error_and_waits_grow_to_a_cap() -> None:
    box = outbox()
    box.offer(news(0))
    (attempt,) = box.due(0.0)
    box.settle(attempt.incident, Outcome.RETRY_LATE, "429", 0.0)
    assert box.due(29.0) == []
    assert len(box.due(30.0)) == 1
    pauses = []
    now = 30.0
    for _ in range(10):
        box.settle(attempt.incident, Outcome.RETRY, "503", now)
        start = now
        while not box.due(now):
            now += 0.5
        pauses.append(now - start)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60.0


def test_a_refused_trigger_is_tried_anew_only_with_news_and_never_resolved() -> None:
    box = outbox()
    box.offer(news(0))
    deliver(box, Outcome.REJECTED)
    assert box.due(1000.0) == []
    assert box.offer(over(1)) is None
    box = outbox()
    box.offer(news(0))
    deliver(box, Outcome.REJECTED)
    intent = box.offer(news(1, cause="leak"))
    assert intent is not None
    assert intent.action == "trigger"
