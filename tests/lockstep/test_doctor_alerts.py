"""What `lockstep doctor` says of receivers and pages."""

from pathlib import Path

from fake_clock import FakeClock
from msgspec.structs import replace

from alerts.outbox import GONE
from collectors.agent.settings import AgentSettings
from lockstep.doctor import Machine, alerts
from runtime.settings import ClickHouse
from schemas import AlertState, Incident, Silence
from schemas.codec import encode
from schemas.examples import EXAMPLES

STATE = next(e for e in EXAMPLES if isinstance(e, AlertState))
SILENCE = next(e for e in EXAMPLES if isinstance(e, Silence))
NOW_MS = FakeClock().now_ms()


def machine(**environment: str) -> Machine:
    return Machine(agent=AgentSettings(), database=ClickHouse(), environment=environment, clock=FakeClock())


def test_each_receiver_that_is_set_up_is_a_line_without_its_secrets() -> None:
    key, token = "0123456789abcdef0123456789abcdef", "xoxb-hidden"
    found = alerts.receivers(
        machine(
            LOCKSTEP_PAGERDUTY_ROUTING_KEY_FACILITIES=key,
            LOCKSTEP_SLACK_TOKEN=token,
            LOCKSTEP_SLACK_CHANNEL="C01",
            LOCKSTEP_ALERTMANAGER_URL="http://am:9093",
            LOCKSTEP_RUNBOOK_URL="https://wiki/books",
        )
    )
    assert [check.state for check in found] == ["ok"] * 3
    assert "keys of the right form for facilities" in found[0].seen
    assert not any(secret in check.seen for check in found for secret in (key, token))


def test_a_receiver_that_is_half_set_up_is_broken() -> None:
    (check,) = alerts.receivers(machine(LOCKSTEP_SLACK_TOKEN="xoxb-hidden"))
    assert (check.state, "LOCKSTEP_SLACK_CHANNEL" in check.seen) == ("broken", True)
    (check,) = alerts.receivers(
        machine(LOCKSTEP_WEBHOOK_URL="http://hook", LOCKSTEP_WEBHOOK_TEMPLATE=str(Path("/no/such.json")))
    )
    assert (check.state, "no such file" in check.seen) == ("broken", True)


def test_a_receiver_that_is_down_and_keys_that_are_gone_are_said() -> None:
    waits = replace(STATE, ts_ms=NOW_MS - 3_600_000, attempts=60, response="503 down")
    gone = replace(STATE, incident="i-gone", status="rejected", action="resolve", response=GONE, attempted_resolve=True)
    held = replace(STATE, incident="i-held", held="silenced by mira")
    silence = replace(SILENCE, from_ms=NOW_MS - 1, until_ms=NOW_MS + 1)
    summary, down, orphan = alerts.judge((waits, gone, held, silence), NOW_MS)
    assert summary.seen == "0 open, 1 to be sent, 1 held, 1 silences"
    assert (down.state, "waits for pagerduty since 60 min (503 down)" in down.seen) == ("attention", True)
    assert (orphan.state, "i-gone" in orphan.seen) == ("attention", True)


def test_an_end_that_no_try_was_made_for_yet_waits_too() -> None:
    """A receiver that is down is tried with one event at a time."""
    incident = next(e for e in EXAMPLES if isinstance(e, Incident))
    end = replace(incident, revision=1, change="resolve", state="resolved", ts_ms=NOW_MS - 600_000)
    ends = [replace(STATE, incident=f"i-{n}", status="delivered", latest=encode(end)) for n in range(3)]
    tried = replace(STATE, ts_ms=NOW_MS - 60_000, attempts=9, response="503 down")
    summary, down = alerts.judge((*ends, tried), NOW_MS)
    assert summary.seen == "3 open, 4 to be sent, 0 held, 0 silences"
    assert (down.state, down.seen) == ("attention", "i-0 waits for pagerduty since 10 min (503 down)")


def test_all_sent_is_one_line() -> None:
    (check,) = alerts.judge((replace(STATE, status="delivered"),), NOW_MS)
    assert (check.state, check.seen) == ("ok", "1 open, 0 to be sent, 0 held, 0 silences")
