"""A real Alertmanager gets one alert for an incident, with the labels of now, until it is over."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from alert_receivers import HttpReceiver
from alertmanager_server import Unavailable, alertmanager
from msgspec.structs import replace

from alerts.alertmanager import Alertmanager, labels
from alerts.receiver import Outcome
from alerts.settings import AlertsSettings
from runtime.clock import SystemClock
from schemas import AlertState, Incident
from schemas.examples import EXAMPLES

NOW_MS = SystemClock().now_ms()
INCIDENT = replace(
    next(e for e in EXAMPLES if isinstance(e, Incident)), ts_ms=NOW_MS, onset_ms=NOW_MS - 60_000, detected_ms=NOW_MS
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with alertmanager(tmp_path_factory.mktemp("alertmanager")) as url:
            yield url
    except Unavailable as error:
        pytest.skip(str(error))


def send(server: str, action: str, incident: Incident) -> Outcome:
    receiver = Alertmanager(AlertsSettings(alertmanager_url=server + "/"), SystemClock())
    return receiver.deliver(
        AlertState(
            cluster="eos", ts_ms=NOW_MS, receiver="alertmanager", incident=incident.id, revision=incident.revision,
            action=action, status="intent", attempts=1, body=receiver.render(incident, action),
        )
    ).outcome  # fmt: skip


def active(server: str, id_: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{server}/api/v2/alerts?filter=incident%3D%22{id_}%22", timeout=5) as answer:
        return [alert for alert in json.load(answer) if alert["status"]["state"] != "suppressed"]


def test_one_alert_with_the_conventional_labels(server: str) -> None:
    assert send(server, "trigger", INCIDENT) is Outcome.DELIVERED
    assert send(server, "trigger", INCIDENT) is Outcome.DELIVERED
    (alert,) = active(server, INCIDENT.id)
    assert alert["labels"] == {
        "alertname": "LockstepGpuDegraded",
        "severity": "critical",
        "cluster": "eos",
        "incident": INCIDENT.id,
        "cause": "gpu_degraded",
        "kind": "straggler",
        "scope": "rank",
        "team": "hardware",
        "node": "r01-t02",
        "gpu": "GPU-00000000-0000-0000-0000-000000000007",
        "rack": "r01",
        "job_id": "slurm:eos/71/0",
    }
    assert alert["annotations"]["summary"].startswith("GPU degraded: rank 7 on r01-t02")


def test_an_incident_whose_labels_change_is_still_one_alert_and_its_end_ends_it(server: str) -> None:
    incident = replace(INCIDENT, id="i-changing")
    send(server, "trigger", incident)
    leak = replace(incident, revision=1, cause="leak", severity="warning", slowdown=None)
    assert send(server, "update", leak) is Outcome.DELIVERED
    assert [alert["labels"] for alert in active(server, "i-changing")] == [labels(leak)]
    over = replace(leak, revision=2, change="resolve", state="resolved", resolved_ms=NOW_MS)
    assert send(server, "resolve", over) is Outcome.DELIVERED
    assert active(server, "i-changing") == []


@pytest.mark.parametrize(
    "answer", [b"[" * 100_000, b"{}", b"[{}]", b'[{"labels": {}}]', b'[{"labels": {}, "startsAt": 7}]', b"\xff"]
)
def test_an_answer_that_is_no_list_of_alerts_keeps_no_end_from_being_told(answer: bytes) -> None:
    with HttpReceiver(lambda request: (200, {}, answer)) as place:
        assert send(place.url.rstrip("/"), "resolve", INCIDENT) is Outcome.DELIVERED


def test_what_alertmanager_refuses_is_our_bug(server: str) -> None:
    receiver = Alertmanager(AlertsSettings(alertmanager_url=server), SystemClock())
    bad = AlertState(
        cluster="eos", ts_ms=NOW_MS, receiver="alertmanager", incident="i", revision=0, action="trigger",
        status="intent", attempts=1, body=b'[{"labels": {"": ""}}]',
    )  # fmt: skip
    assert receiver.deliver(bad).outcome is Outcome.REJECTED
