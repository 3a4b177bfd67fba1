"""What every receiver must do, whoever it is: the same outcomes for the same troubles, no secrets, the same bytes."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from alert_receivers import AlertmanagerLike, HttpReceiver, SlackChannel
from fake_clock import FakeClock
from msgspec.structs import replace
from pagerduty_receiver import ROUTING_KEY, PagerDutyReceiver

from alerts.receiver import Outcome, Receiver
from alerts.service import RECEIVERS
from alerts.settings import AlertsSettings
from schemas import AlertState, Incident
from schemas.examples import EXAMPLES
from schemas.finding import Evidence

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
SECRETS = (ROUTING_KEY, "webhook-secret", "alertmanager-password", "xoxb-test")


class Local(NamedTuple):
    """A receiver, and the troubles of the place it sends to: statuses, "hang", "lost"."""

    receiver: Receiver
    trouble: list[int | str]


def made(name: str, **settings: object) -> Receiver:
    receiver = RECEIVERS[name](AlertsSettings(**settings), FakeClock())
    assert receiver is not None
    return receiver


@contextlib.contextmanager
def local(name: str, folder: Path) -> Iterator[Local]:
    if name == "pagerduty":
        with PagerDutyReceiver(folder, behaviour=[]) as place:
            place.choose = lambda: place.behaviour.pop(0) if place.behaviour else 202
            yield Local(
                made(
                    name, pagerduty_routing_key=ROUTING_KEY, pagerduty_url=place.url, pagerduty_ca=place.ca,
                    pagerduty_timeout_s=0.5,
                ),
                place.behaviour,
            )  # fmt: skip
        return
    answer = {
        "webhook": lambda request: (204, {}, b""),
        "alertmanager": AlertmanagerLike().answer,
        "slack": SlackChannel().answer,
    }[name]
    with HttpReceiver(answer, headers={"Retry-After": "7"}) as place:
        settings = {
            "webhook": {"webhook_url": place.url + "/hook", "webhook_secret": "webhook-secret"},
            "alertmanager": {
                "alertmanager_url": place.url, "alertmanager_user": "u",
                "alertmanager_password": "alertmanager-password",
            },
            "slack": {"slack_url": place.url + "/api", "slack_token": "xoxb-test", "slack_channel": "alerts"},
        }[name]  # fmt: skip
        yield Local(made(name, alerts_timeout_s=0.5, **settings), place.trouble)


@pytest.fixture(params=list(RECEIVERS))
def one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Local]:
    with local(request.param, tmp_path) as found:
        yield found


def attempt(receiver: Receiver, action: str = "trigger", incident: Incident = INCIDENT, **more: object) -> AlertState:
    given = {"attempts": 1, "route": receiver.route(incident), "body": receiver.render(incident, action)} | more
    return AlertState(
        cluster="eos", ts_ms=0, receiver=receiver.name, incident=incident.id, revision=incident.revision,
        action=action, status="intent", **given,
    )  # fmt: skip


def test_trigger_update_and_resolve_are_taken(one: Local) -> None:
    grown = replace(INCIDENT, revision=1, cause="leak", victims=900)
    over = replace(grown, revision=2, change="resolve", state="resolved", resolved_ms=INCIDENT.ts_ms + 60_000)
    handle = ""
    for action, incident in (("trigger", INCIDENT), ("update", grown), ("resolve", over)):
        answer = one.receiver.deliver(attempt(one.receiver, action, incident, handle=handle))
        assert answer.outcome is Outcome.DELIVERED, answer
        handle = answer.handle or handle


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [
        (400, Outcome.REJECTED),
        (401, Outcome.KEY_REFUSED),
        (403, Outcome.KEY_REFUSED),
        (404, Outcome.RETRY),
        (408, Outcome.RETRY),
        (429, Outcome.RETRY_LATE),
        (500, Outcome.RETRY),
        (502, Outcome.RETRY),
        (503, Outcome.RETRY),
        (302, Outcome.RETRY),
        ("hang", Outcome.RETRY),
        ("lost", Outcome.RETRY),
    ],
)
def test_troubles_have_the_same_outcome_everywhere(one: Local, trouble: int | str, outcome: Outcome) -> None:
    one.trouble.append(trouble)
    answer = one.receiver.deliver(attempt(one.receiver))
    assert answer.outcome is outcome
    assert one.receiver.deliver(attempt(one.receiver, attempts=2)).outcome is Outcome.DELIVERED, "then it works again"


@pytest.mark.parametrize("name", RECEIVERS)
def test_nobody_there_did_certainly_not_get_it(name: str, tmp_path: Path) -> None:
    with local(name, tmp_path) as gone:
        state = attempt(gone.receiver)
    answer = gone.receiver.deliver(state)
    assert (answer.outcome, answer.arrived) == (Outcome.RETRY, False)


def test_the_same_incident_is_the_same_bytes_without_secrets(one: Local) -> None:
    body = one.receiver.render(INCIDENT, "trigger")
    assert body == one.receiver.render(INCIDENT, "trigger")
    json.loads(body)
    assert not any(secret.encode() in body for secret in SECRETS)
    answer = one.receiver.deliver(attempt(one.receiver))
    assert not any(secret in answer.text for secret in SECRETS)


def test_what_the_evidence_holds_of_secrets_does_not_leave(one: Local) -> None:
    lines = (
        "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwx",
        "https://u:hunter2@store/x",
        "Authorization: Bearer abcdef12345",
    )
    leaky = replace(INCIDENT, evidence=tuple(Evidence(text=line) for line in lines), summary="password: hunter2")
    body = one.receiver.render(leaky, "trigger").decode()
    assert not re.search("hunter2|hf_abc|abcdef12345", body)


def test_an_incident_of_any_size_and_odd_characters_is_taken(one: Local) -> None:
    odd = 'ü"\\\n\x00<&>\u2028${title}😀'
    huge = replace(
        INCIDENT, summary=odd * 1000, action=odd * 1000, sql="SELECT '" + odd * 10_000, job=odd[:100],
        evidence=tuple(Evidence(text=odd * 2000) for _ in range(50)), members=tuple(f"{odd}{n}" for n in range(500)),
        culprits=tuple(replace(INCIDENT.culprits[0], node=f"{odd}{n}"[:256]) for n in range(100)),
    )  # fmt: skip
    state = attempt(one.receiver, incident=huge)
    assert len(state.body) < 512_000
    assert one.receiver.deliver(state).outcome is Outcome.DELIVERED


def test_no_text_moves_a_cursor_or_turns_a_line_around(one: Local) -> None:
    odd = "\x00\x1b[2J\x07\x9b\u202eabc\u2066 😀\n"
    hostile = replace(
        INCIDENT, summary=odd, action=odd, sql=odd, job=odd, evidence=(Evidence(text=odd),), members=(odd,),
        culprits=(replace(INCIDENT.culprits[0], node=odd, rack=odd, job=odd, gpu=odd),),
    )  # fmt: skip

    def unseen(found: object) -> set[str]:
        if isinstance(found, dict):
            found = list(found.values())
        if isinstance(found, list):
            return set().union(*map(unseen, found))
        return set(str(found)) & set("\x00\x1b\x07\x9b\u202e\u2066")

    state = attempt(one.receiver, incident=hostile)
    assert unseen(json.loads(state.body)) == set()
    assert "😀" in state.body.decode()
    assert one.receiver.deliver(state).outcome is Outcome.DELIVERED


def test_what_was_opened_can_be_reached_again(one: Local) -> None:
    assert one.receiver.knows(one.receiver.route(INCIDENT))
    calls, seconds = one.receiver.rate
    assert calls > 0
    assert seconds > 0
