"""The events PagerDuty gets, over TLS, and what its answers mean."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from pagerduty_receiver import ROUTING_KEY, PagerDutyReceiver

from alerts.pagerduty import PagerDuty, PagerDutySettings, judge
from alerts.receiver import Outcome
from runtime.errors import UserError
from runtime.settings import from_environment
from schemas import Incident
from schemas.examples import EXAMPLES
from schemas.finding import Evidence

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))


def settings(url: str = "https://127.0.0.1:1/v2/enqueue", ca: str = "", timeout_s: float = 5.0) -> PagerDutySettings:
    return PagerDutySettings(
        pagerduty_routing_key=ROUTING_KEY, pagerduty_url=url, pagerduty_ca=ca, pagerduty_timeout_s=timeout_s
    )


def test_a_trigger_says_what_where_since_and_what_to_do() -> None:
    event = json.loads(PagerDuty(settings()).render(INCIDENT, "trigger"))
    assert event == {
        "event_action": "trigger",
        "dedup_key": "i-00000000000000b2",
        "client": "Lockstep",
        "payload": {
            "summary": "rank 7 slows 511 ranks by 30 %",
            "source": "r01-t02",
            "severity": "critical",
            "timestamp": "2023-11-14T22:13:20.000Z",
            "component": "rank",
            "group": "eos",
            "class": "gpu_degraded",
            "custom_details": {
                "what": "GPU computes slower than its own past at equal clocks and load",
                "confidence": 0.9,
                "culprits": ["rank 7 (GPU GPU-00000000-0000-0000-0000-000000000007 on r01-t02)"],
                "victims": 511,
                "since": "2023-11-14T22:13:20.000Z",
                "evidence": ["power 512 W against 690 W of its own past"],
                "what to do": "Drain the node.",
                "job": "slurm:eos/71/0",
            },
        },
    }


def test_a_resolve_names_only_the_key() -> None:
    assert json.loads(PagerDuty(settings()).render(INCIDENT, "resolve")) == {
        "event_action": "resolve",
        "dedup_key": "i-00000000000000b2",
    }


def test_what_is_too_long_is_cut_to_the_limits() -> None:
    long = replace(INCIDENT, summary="é" * 5000, evidence=(Evidence(text="x" * 600_000),))
    body = PagerDuty(settings()).render(long, "trigger")
    event = json.loads(body)
    assert len(event["payload"]["summary"]) == 1024
    assert len(body) < 512 * 1024
    assert event["payload"]["custom_details"]["id"] == INCIDENT.id


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (202, Outcome.DELIVERED),
        (400, Outcome.REJECTED),
        (403, Outcome.REJECTED),
        (408, Outcome.RETRY),
        (429, Outcome.RETRY_LATE),
        (500, Outcome.RETRY),
        (503, Outcome.RETRY),
        (301, Outcome.RETRY),
    ],
)
def test_answers(status: int, outcome: Outcome) -> None:
    assert judge(status) is outcome


def test_over_tls_against_a_receiver_that_answers_all_kinds(tmp_path: Path) -> None:
    with PagerDutyReceiver(tmp_path, behaviour=[202, 429, 500, "hang", "lost", 202]) as receiver:
        pagerduty = PagerDuty(settings(receiver.url, receiver.ca, timeout_s=1.0))
        body = pagerduty.render(INCIDENT, "trigger")
        outcomes = [pagerduty.deliver(body)[0] for _ in range(6)]
        assert outcomes == [
            Outcome.DELIVERED,
            Outcome.RETRY_LATE,
            Outcome.RETRY,
            Outcome.RETRY,
            Outcome.RETRY,
            Outcome.DELIVERED,
        ]
        assert receiver.opened == [INCIDENT.id], "repeats of one key are one page"
        assert len(set(receiver.bodies)) == 1
        assert receiver.refused == []


def test_a_receiver_whose_certificate_is_not_trusted_gets_nothing(tmp_path: Path) -> None:
    with PagerDutyReceiver(tmp_path) as receiver:
        outcome, answer = PagerDuty(settings(receiver.url)).deliver(b"{}")
        assert (outcome, answer) == (Outcome.RETRY, "SSLError")
        assert receiver.events == []


def test_nobody_there_is_tried_again() -> None:
    assert PagerDuty(settings()).deliver(b"{}")[0] is Outcome.RETRY


@pytest.mark.parametrize(
    ("variable", "value"),
    [("LOCKSTEP_PAGERDUTY_ROUTING_KEY", "short"), ("LOCKSTEP_PAGERDUTY_URL", "http://plain.example/")],
)
def test_settings_that_make_no_sense(variable: str, value: str) -> None:
    with pytest.raises(UserError, match=rf"^{variable}=") as caught:
        from_environment(PagerDutySettings, {variable: value})
    assert "short" not in str(caught.value), "a key is never shown"
