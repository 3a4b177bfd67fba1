"""PagerDuty, Events API v2: an incident becomes one alert with a stable dedup key.

Rules used here (developer documentation of the Events API v2): summary up to 1,024 characters, severity one of
critical, error, warning, info; an event up to 512 KB; 202 accepted, 400 never to be retried, 429 and 5xx to be
retried; a trigger with the dedup key of an open alert is added to it, one after its resolve opens a new incident.
"""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import urllib3
from msgspec import Meta

from alerts.receiver import Outcome
from runtime.settings import Connection
from schemas import Incident
from schemas.causes import CAUSES

SUMMARY_LIMIT = 1024
BODY_LIMIT = 512_000
SEVERITY = {"critical": "critical", "warning": "warning", "info": "info"}


class PagerDutySettings(Connection, frozen=True, kw_only=True):
    """Where and with which integration key events are sent; without a key PagerDuty is off."""

    pagerduty_routing_key: Annotated[str, Meta(pattern=r"^([0-9A-Za-z]{32})?$")] = ""
    pagerduty_url: Annotated[str, Meta(pattern=r"^https://")] = "https://events.pagerduty.com/v2/enqueue"
    pagerduty_ca: str = ""
    pagerduty_timeout_s: Annotated[float, Meta(gt=0)] = 10.0


class PagerDuty:
    """The receiver: renders incidents and makes one HTTPS request per delivery."""

    name = "pagerduty"

    def __init__(self, settings: PagerDutySettings) -> None:
        self._settings = settings
        self._http = urllib3.PoolManager(
            ca_certs=settings.pagerduty_ca or None,
            timeout=urllib3.Timeout(total=settings.pagerduty_timeout_s),
            retries=False,
        )

    def render(self, incident: Incident, action: str) -> bytes:
        """The event without its routing key, at most 512 KB: details are left out before it grows over that."""
        event: dict[str, Any] = {
            "event_action": "resolve" if action == "resolve" else "trigger",
            "dedup_key": incident.id,
        }
        if action != "resolve":
            event["client"] = "Lockstep"
            event["payload"] = _payload(incident)
        body = _encode(event)
        if len(body) > BODY_LIMIT:
            event["payload"]["custom_details"] = {"note": "details were too large for PagerDuty", "id": incident.id}
            body = _encode(event)
        return body

    def deliver(self, body: bytes) -> tuple[Outcome, str]:
        event = {"routing_key": self._settings.pagerduty_routing_key} | json.loads(body)
        try:
            answer = self._http.request(
                "POST",
                self._settings.pagerduty_url,
                body=_encode(event),
                headers={"Content-Type": "application/json"},
            )
        except urllib3.exceptions.HTTPError as error:
            return Outcome.RETRY, type(error).__name__
        return judge(answer.status), f"{answer.status} {answer.data[:150].decode('utf-8', 'replace')}".strip()


def judge(status: int) -> Outcome:
    """What an HTTP status means for the event: accepted, never, later, or much later."""
    if status == 202:
        return Outcome.DELIVERED
    if status == 429:
        return Outcome.RETRY_LATE
    if 400 <= status < 500 and status != 408:
        return Outcome.REJECTED
    return Outcome.RETRY


def _payload(incident: Incident) -> dict[str, Any]:
    first = incident.culprits[0] if incident.culprits else None
    source = (first.node or first.rack or first.job) if first else ""
    details = {
        "what": CAUSES[incident.cause].words,
        "confidence": round(incident.confidence, 2),
        "also possible": CAUSES[incident.runner_up].words if incident.runner_up else None,
        "culprits": [subject.label() for subject in incident.culprits],
        "victims": incident.victims,
        "since": _iso(incident.onset_ms),
        "evidence": [evidence.text for evidence in incident.evidence],
        "what to do": incident.action,
        "look further (SQL)": incident.sql,
        "job": incident.job,
    }
    return {
        "summary": _cut(incident.summary or CAUSES[incident.cause].words, SUMMARY_LIMIT),
        "source": _cut(source or incident.cluster, 255),
        "severity": SEVERITY[incident.severity],
        "timestamp": _iso(incident.onset_ms),
        "component": _cut(incident.scope, 255),
        "group": _cut(incident.cluster, 255),
        "class": incident.cause,
        "custom_details": {name: value for name, value in details.items() if value not in (None, "", [])},
    }


def _iso(ts_ms: int) -> str:
    return datetime.fromtimestamp(ts_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _encode(event: dict[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
