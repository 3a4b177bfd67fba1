"""What is sent for an incident, in what order, and what a death may repeat."""

from msgspec.structs import replace

from alerts.outbox import Outbox
from alerts.receiver import Answer, Outcome
from schemas import AlertState, Incident, Silence
from schemas.codec import encode
from schemas.examples import EXAMPLES

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
SILENCE = next(e for e in EXAMPLES if isinstance(e, Silence))


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
    attempted = []
    while (state := box.next(now_s)) is not None:
        attempted.append(state)
        box.settle(state.incident, Answer(outcome, "said"), now_s)
    return attempted


def attempt(box: Outbox, now_s: float = 0.0) -> AlertState:
    state = box.next(now_s)
    assert state is not None
    return state


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
    assert box.next(0.0) is None


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
    assert box.next(0.0) is None
    assert box.offer(news(2, cause="unknown")) is None


def test_news_waits_durably_behind_an_attempt_of_unknown_outcome() -> None:
    box = outbox()
    box.offer(news(0))
    first = attempt(box)
    box.settle(first.incident, Answer(Outcome.RETRY, "timeout"), 0.0)
    waiting = box.offer(over(1))
    assert waiting is not None
    assert box.next(0.5) is None, "not before its back-off"
    again = attempt(box, 5.0)
    assert again.body == first.body, "repeated byte for byte"
    (outcome,) = box.settle(again.incident, Answer(Outcome.DELIVERED, "202"), 5.0)
    assert (outcome.status, outcome.action) == ("delivered", "trigger")
    assert attempt(box, 5.0).action == "resolve"
    reborn = outbox(waiting)
    assert attempt(reborn).body == first.body, "after a death as well"
    reborn.settle(first.incident, Answer(Outcome.DELIVERED, "202"), 5.0)
    assert attempt(reborn, 5.0).action == "resolve"


def test_what_certainly_did_not_arrive_may_be_replaced_or_dropped() -> None:
    box = outbox()
    box.offer(news(0))
    box.settle(attempt(box).incident, Answer(Outcome.RETRY, "refused", arrived=False), 0.0)
    box.offer(news(1, cause="leak"))
    again = attempt(box, 5.0)
    assert (again.action, again.body) == ("trigger", b"trigger i-00000000000000b2 r1")
    box.settle(again.incident, Answer(Outcome.RETRY, "refused", arrived=False), 5.0)
    stored = box.offer(over(2))
    assert stored is not None
    assert stored.status == "suppressed"


def test_the_newest_of_several_waiting_news_wins() -> None:
    box = outbox()
    box.offer(news(0))
    first = attempt(box)
    box.offer(news(1, cause="unknown"))
    box.offer(news(2, cause="leak"))
    box.settle(first.incident, Answer(Outcome.DELIVERED, "202"), 0.0)
    second = attempt(box)
    assert (second.action, second.revision) == ("update", 2)
    box.settle(second.incident, Answer(Outcome.DELIVERED, "202"), 0.0)
    assert box.next(1000.0) is None


def test_no_trigger_follows_an_attempted_resolve_even_after_a_death() -> None:
    box = outbox()
    box.offer(news(0))
    deliver(box)
    box.offer(over(1))
    last = attempt(box)
    reborn = outbox(last)
    assert reborn.offer(news(2, cause="leak")) is None
    again = attempt(reborn)
    assert (again.action, again.body) == ("resolve", last.body)


def test_news_of_a_former_life_is_taken_up() -> None:
    box = outbox()
    intent = box.offer(news(0))
    assert intent is not None
    reborn = outbox(intent)
    assert reborn.offer(news(0)) is None, "the same revision read again"
    assert [s.body for s in deliver(reborn)] == [b"trigger i-00000000000000b2 r0"]


def test_an_intent_that_an_older_version_stored_is_sent_as_it_is() -> None:
    old = AlertState(
        cluster="eos", ts_ms=1, receiver="pagerduty", incident="i-old", revision=0, action="trigger", status="intent",
        body=b"as it was",
    )  # fmt: skip
    box = outbox(old)
    assert [s.body for s in deliver(box)] == [b"as it was"]
    box.offer(replace(over(1), id="i-old"))
    assert [s.action for s in deliver(box)] == ["resolve"]


def test_news_that_cannot_be_read_keeps_nobody_from_being_told() -> None:
    """Of a later version before it was taken back, or of whoever else can write to the topic."""
    one = AlertState(
        cluster="eos", ts_ms=1, receiver="pagerduty", incident=INCIDENT.id, revision=0, action="trigger",
        status="delivered", latest=b"\xc1",
    )  # fmt: skip
    never = replace(one, incident="i-never", status="intent")
    tried = replace(one, incident="i-tried", status="intent", attempts=1, body=b"as it was", latest=encode(SILENCE))
    box = outbox(one, never, tried)
    assert [s.body for s in deliver(box)] == [b"as it was"]
    box.offer(over(1))
    box.offer(replace(news(1), id="i-never"))
    assert [(s.incident, s.action) for s in deliver(box)] == [("i-never", "trigger"), (INCIDENT.id, "resolve")]


def test_what_is_over_is_remembered_for_a_month_and_then_forgotten() -> None:
    box = outbox()
    box.offer(news(0))
    deliver(box)
    box.offer(over(1))
    deliver(box)
    box.forget(INCIDENT.ts_ms + 30 * 86_400_000)
    assert box.offer(news(2, cause="leak")) is None
    box.forget(INCIDENT.ts_ms + 32 * 86_400_000)
    assert box.offer(news(2, cause="leak")) is not None


def test_a_rate_limit_waits_longer_than_an_error_and_waits_grow_to_a_cap() -> None:
    box = outbox()
    box.offer(news(0))
    first = attempt(box)
    box.settle(first.incident, Answer(Outcome.RETRY_LATE, "429"), 0.0)
    assert box.next(29.0) is None
    assert box.next(30.0) is not None
    pauses = []
    now = 30.0
    for _ in range(10):
        box.settle(first.incident, Answer(Outcome.RETRY, "503"), now)
        start = now
        while box.next(now) is None:
            now += 0.5
        pauses.append(now - start)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60.0


def test_a_pause_that_the_receiver_asks_for_is_kept() -> None:
    box = outbox()
    box.offer(news(0))
    box.settle(attempt(box).incident, Answer(Outcome.RETRY_LATE, "429", after_s=300.0), 0.0)
    assert box.next(299.0) is None
    assert box.next(300.0) is not None


def test_one_event_that_is_never_taken_blocks_no_other() -> None:
    box = outbox()
    box.offer(replace(news(0), id="i-poison"))
    taken = set()
    now = 0.0
    for number in range(20):
        box.offer(replace(news(0), id=f"i-{number}"))
        for _ in range(3):
            now += 2.0
            if (state := box.next(now)) is not None:
                bad = state.incident == "i-poison"
                box.settle(state.incident, Answer(Outcome.RETRY if bad else Outcome.DELIVERED, "said"), now)
                taken.add(state.incident)
    assert taken == {"i-poison", *(f"i-{n}" for n in range(20))}


def test_a_refused_trigger_is_tried_anew_only_with_news_and_never_resolved() -> None:
    box = outbox()
    box.offer(news(0))
    deliver(box, Outcome.REJECTED)
    assert box.next(1000.0) is None
    stored = box.offer(over(1))
    assert stored is not None
    assert stored.status == "suppressed"
    assert box.next(1000.0) is None
    box = outbox()
    box.offer(news(0))
    deliver(box, Outcome.REJECTED)
    box.offer(news(1, cause="leak"))
    assert attempt(box).action == "trigger"


def test_growth_is_told_once_a_minute_and_what_makes_it_worse_at_once() -> None:
    box = outbox()
    box.offer(news(0, severity="warning", victims=4, slowdown=None))
    deliver(box, now_s=0.0)
    box.offer(news(1, severity="warning", victims=9, slowdown=None))
    assert deliver(box, now_s=1.0) == []
    box.offer(news(2, severity="warning", victims=40, slowdown=None))
    assert [s.revision for s in deliver(box, now_s=2.0)] == [2], "eight times the victims"
    box.offer(news(3, severity="warning", victims=80, slowdown=None))
    assert deliver(box, now_s=3.0) == []
    assert [s.revision for s in deliver(box, now_s=62.0)] == [3]
    box.offer(news(4, severity="critical", victims=80, slowdown=None))
    assert [s.revision for s in deliver(box, now_s=63.0)] == [4]


def test_a_receiver_that_forgets_is_told_again_what_is_open() -> None:
    box = Outbox("alertmanager", render, refresh_s=60.0)
    box.offer(news(0))
    deliver(box, now_s=0.0)
    assert deliver(box, now_s=59.0) == []
    assert [s.action for s in deliver(box, now_s=60.0)] == ["update"]
    box.offer(over(1))
    assert [s.action for s in deliver(box, now_s=61.0)] == ["resolve"]
    assert deliver(box, now_s=500.0) == []


def test_a_state_stays_small_however_much_an_incident_joins() -> None:
    box = outbox()
    huge = news(0, findings=tuple(f"f-{n:016}" for n in range(10_000)), culprits=INCIDENT.culprits * 5000)
    stored = box.offer(huge)
    assert stored is not None
    assert len(encode(stored)) < 64 * 1024
