"""The events PagerDuty gets, over TLS, and what its answers mean."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from pagerduty_receiver import ROUTING_KEY, PagerDutyReceiver

from alerts.http import Reply, judge
from alerts.pagerduty import PagerDuty
from alerts.receiver import Outcome
from alerts.settings import AlertsSettings
from runtime.errors import UserError
from runtime.settings import from_environment
from schemas import AlertState, Incident
from schemas.causes import CAUSES
from schemas.examples import EXAMPLES
from schemas.finding import Evidence

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))


def settings(
    url: str = "https://127.0.0.1:1/v2/enqueue", ca: str = "", timeout_s: float = 5.0, **more: str
) -> AlertsSettings:
    given = {"pagerduty_routing_key": ROUTING_KEY} | more
    return AlertsSettings(pagerduty_url=url, pagerduty_ca=ca, pagerduty_timeout_s=timeout_s, **given)


def attempt(pagerduty: PagerDuty, incident: Incident = INCIDENT, action: str = "trigger") -> AlertState:
    return AlertState(
        cluster="eos", ts_ms=0, receiver="pagerduty", incident=incident.id, revision=0, action=action,
        status="intent", attempts=1, body=pagerduty.render(incident, action), route=pagerduty.route(incident),
    )  # fmt: skip


def test_a_trigger_says_what_where_since_and_what_to_do() -> None:
    event = json.loads(PagerDuty(settings(runbook_url="https://wiki/books")).render(INCIDENT, "trigger"))
    assert event == {
        "event_action": "trigger",
        "dedup_key": "i-00000000000000b2",
        "client": "Lockstep",
        "links": [{"href": "https://wiki/books/gpu_degraded.md", "text": "Runbook: gpu_degraded"}],
        "payload": {
            "summary": "GPU degraded: rank 7 on r01-t02; 30 % slower, 511 ranks wait; since 22:13 UTC",
            "source": "r01-t02",
            "severity": "critical",
            "timestamp": "2023-11-14T22:13:20.000Z",
            "component": "rank",
            "group": "eos",
            "class": "gpu_degraded",
            "custom_details": {
                "what": "GPU computes slower than its own past at equal clocks and load",
                "in full": "rank 7 slows 511 ranks by 30 %",
                "where": "rank 7 on r01-t02",
                "impact": "30 % slower, 511 ranks wait",
                "for the team": "hardware",
                "confidence": 0.9,
                "culprits": ["rank 7 (GPU GPU-00000000-0000-0000-0000-000000000007 on r01-t02)"],
                "victims": 511,
                "since": "2023-11-14T22:13:20.000Z",
                "evidence": ["power 512 W against 690 W of its own past"],
                "what to do": "Drain the node.",
                "runbook": "https://wiki/books/gpu_degraded.md",
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
    culprits = tuple(replace(INCIDENT.culprits[0], node=f"{'n' * 200}-{n}", rank=n) for n in range(100))
    long = replace(
        INCIDENT, summary="é" * 5000, evidence=(Evidence(text="x" * 600_000),) * 20, culprits=culprits, sql="s" * 10**6,
        action="a" * 9000, members=tuple(f"m{n}" for n in range(1000)), job="j" * 250,
    )  # fmt: skip
    body = PagerDuty(settings()).render(long, "trigger")
    event = json.loads(body)
    assert len(event["payload"]["summary"]) <= 160
    assert len(body) < 64 * 1024
    assert event["payload"]["custom_details"]["members"][-1] == "and 936 more"


def test_each_team_has_its_own_key_and_the_others_the_default_one() -> None:
    team_keys = {"pagerduty_routing_key_facilities": "a" * 32, "pagerduty_routing_key_job_owner": "b" * 32}
    pagerduty = PagerDuty(settings(**team_keys))
    routes = {cause: pagerduty.route(replace(INCIDENT, cause=cause)).partition("#")[0] for cause in CAUSES}
    assert routes["leak"] == "facilities"
    assert routes["work_imbalance"] == "job owner"
    assert routes["gpu_lost"] == routes["fabric_link"] == "default"
    only = PagerDuty(settings(pagerduty_routing_key="", **team_keys))
    assert only.route(INCIDENT).startswith("facilities#"), "nobody is forgotten where there is no default"
    assert not any(key in route for route in (pagerduty.route(INCIDENT), only.route(INCIDENT)) for key in ("aaaa",))


def test_events_go_to_the_key_of_their_team(tmp_path: Path) -> None:
    with PagerDutyReceiver(tmp_path, keys={ROUTING_KEY, "a" * 32}) as receiver:
        pagerduty = PagerDuty(settings(receiver.url, receiver.ca, pagerduty_routing_key_facilities="a" * 32))
        for incident in (INCIDENT, replace(INCIDENT, id="i-2", cause="leak")):
            assert pagerduty.deliver(attempt(pagerduty, incident)).outcome is Outcome.DELIVERED
        assert receiver.open_at == {ROUTING_KEY: {INCIDENT.id}, "a" * 32: {"i-2"}}


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (202, Outcome.DELIVERED),
        (400, Outcome.REJECTED),
        (401, Outcome.KEY_REFUSED),
        (403, Outcome.KEY_REFUSED),
        (404, Outcome.RETRY),
        (405, Outcome.RETRY),
        (413, Outcome.REJECTED),
        (408, Outcome.RETRY),
        (429, Outcome.RETRY_LATE),
        (500, Outcome.RETRY),
        (503, Outcome.RETRY),
        (301, Outcome.RETRY),
    ],
)
def test_answers(status: int, outcome: Outcome) -> None:
    assert judge(Reply(status, b""), 202).outcome is outcome


def test_over_tls_against_a_receiver_that_answers_all_kinds(tmp_path: Path) -> None:
    with PagerDutyReceiver(tmp_path, behaviour=[202, 429, 500, "hang", "lost", "reset", 400, 202]) as receiver:
        pagerduty = PagerDuty(settings(receiver.url, receiver.ca, timeout_s=0.5))
        outcomes = [pagerduty.deliver(attempt(pagerduty)).outcome for _ in range(8)]
        assert outcomes == [
            Outcome.DELIVERED,
            Outcome.RETRY_LATE,
            Outcome.RETRY,
            Outcome.RETRY,
            Outcome.RETRY,
            Outcome.RETRY,
            Outcome.REJECTED,
            Outcome.DELIVERED,
        ]
        assert receiver.opened == [INCIDENT.id], "repeats of one key are one page"
        assert len(set(receiver.bodies)) == 1
        assert receiver.refused == []


def test_a_key_that_is_not_known_is_a_persons_work_and_no_bug(tmp_path: Path) -> None:
    with PagerDutyReceiver(tmp_path, keys=set()) as receiver:
        pagerduty = PagerDuty(settings(receiver.url, receiver.ca))
        answer = pagerduty.deliver(attempt(pagerduty))
        assert (answer.outcome, answer.arrived) == (Outcome.KEY_REFUSED, False)
        assert ROUTING_KEY not in answer.text


def test_a_receiver_whose_certificate_is_not_trusted_gets_nothing(tmp_path: Path) -> None:
    with PagerDutyReceiver(tmp_path) as receiver:
        pagerduty = PagerDuty(settings(receiver.url))
        answer = pagerduty.deliver(attempt(pagerduty))
        said = "its certificate is not trusted: self-signed certificate"
        assert (answer.outcome, answer.text.replace("self signed", "self-signed"), answer.arrived) == (
            Outcome.RETRY, said, False,
        )  # fmt: skip
        assert receiver.events == []


def test_nobody_there_is_tried_again() -> None:
    pagerduty = PagerDuty(settings())
    answer = pagerduty.deliver(attempt(pagerduty))
    assert (answer.outcome, answer.arrived) == (Outcome.RETRY, False)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LOCKSTEP_PAGERDUTY_ROUTING_KEY", "short"),
        ("LOCKSTEP_PAGERDUTY_ROUTING_KEYS_BEFORE", "short,also"),
        ("LOCKSTEP_PAGERDUTY_URL", "http://plain.example/"),
    ],
)
def test_settings_that_make_no_sense(variable: str, value: str) -> None:
    with pytest.raises(UserError, match=rf"^{variable}=") as caught:
        from_environment(AlertsSettings, {variable: value})
    assert "short" not in str(caught.value), "a key is never shown"


def test_events_have_the_shape_that_pagerdutys_own_client_sends(tmp_path: Path) -> None:
    # Taken down from EventsApiV2Client of the package `pagerduty` 7.2.0: trigger(...) and resolve(...).
    theirs = {"event_action", "payload", "links", "dedup_key", "routing_key"}
    with PagerDutyReceiver(tmp_path) as receiver:
        pagerduty = PagerDuty(settings(receiver.url, receiver.ca, runbook_url="https://wiki"))
        for action in ("trigger", "resolve"):
            assert pagerduty.deliver(attempt(pagerduty, action=action)).outcome is Outcome.DELIVERED
        trigger, resolve = receiver.events
    assert set(trigger) == theirs | {"client"}
    assert set(trigger["payload"]) >= {"summary", "source", "severity", "custom_details"}
    assert set(trigger["links"][0]) == {"href", "text"}
    assert set(resolve) == {"event_action", "dedup_key", "routing_key"}
