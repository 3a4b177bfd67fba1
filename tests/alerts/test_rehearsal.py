"""What would have been sent in a period: the same moments as live, however long something waits."""

from msgspec.structs import replace

from alerts.manners import FLAPS, HOLDS, STEADY_MS, Situation
from alerts.receiver import Receiver
from alerts.rehearsal import rehearse
from alerts.service import RECEIVERS
from alerts.settings import AlertsSettings
from runtime.clock import SystemClock
from schemas import Incident, Silence
from schemas.examples import EXAMPLES

DAY_MS = 86_400_000
INCIDENT = replace(
    next(e for e in EXAMPLES if isinstance(e, Incident)),
    id="i-1", revision=0, change="open", state="confirmed", severity="warning", cause="gpu_degraded",
)  # fmt: skip
BEGIN_MS = INCIDENT.ts_ms
LATER = replace(INCIDENT, id="i-9", ts_ms=BEGIN_MS + 30 * DAY_MS, cause="fabric_link")


def pagerduty() -> Receiver:
    made = RECEIVERS["pagerduty"](AlertsSettings(pagerduty_routing_key="0" * 32), SystemClock())
    assert made is not None
    return made


def test_what_waits_for_a_month_is_not_looked_at_every_second_of_it() -> None:
    looks = []

    def never(incident: Incident, situation: Situation) -> str:
        looks.append(situation.now_ms)
        return "not today" if incident.id == "i-1" else ""

    sent = rehearse([INCIDENT, LATER], [pagerduty()], holds=[never])
    assert [(one.action, one.incident) for one in sent] == [("held", "i-1"), ("trigger", "i-9")]
    assert len(looks) < 1000


def test_a_silence_of_three_weeks_is_followed_to_the_second() -> None:
    until_ms = BEGIN_MS + 21 * DAY_MS + 7_000
    silence = Silence(
        cluster=INCIDENT.cluster, ts_ms=BEGIN_MS, id="s-1", author="mira", reason="new pumps",
        from_ms=BEGIN_MS, until_ms=until_ms, cause="gpu_degraded",
    )  # fmt: skip
    sent = rehearse([INCIDENT, LATER], [pagerduty()], [silence])
    assert [(one.action, one.incident, one.ts_ms) for one in sent][1:] == [
        ("trigger", "i-1", until_ms),
        ("trigger", "i-9", LATER.ts_ms),
    ]


def test_what_comes_and_goes_is_paged_once_it_has_lasted() -> None:
    told = []
    for number in range(FLAPS + 1):
        at_ms = BEGIN_MS + number * 60_000
        begin = replace(INCIDENT, id=f"i-{number}", ts_ms=at_ms, detected_ms=at_ms, onset_ms=at_ms)
        told.append(begin)
        if number < FLAPS:
            over = {"change": "resolve", "state": "resolved", "resolved_ms": at_ms + 30_000}
            told.append(replace(begin, revision=1, ts_ms=at_ms + 30_000, **over))
    last = rehearse([*told, LATER], [pagerduty()], holds=HOLDS)[-2]
    assert (last.action, last.incident) == ("trigger", f"i-{FLAPS}")
    steady_ms = told[-1].detected_ms + STEADY_MS
    assert steady_ms <= last.ts_ms <= steady_ms + 10_000
