"""Alertmanager, version 2 of its API: an incident becomes one alert, with the labels that people route and inhibit by.

Rules used here (Alertmanager's OpenAPI description and documentation): POST /api/v2/alerts takes a list of alerts; an
alert is its labels, so one whose labels changed is another alert and the old one must be ended; it is over when its
`endsAt` has passed; Alertmanager keeps alerts in memory only, so what is open is told again every minute.
"""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import urllib3

from alerts.content import content, iso, plain
from alerts.http import Http, NoReply, judge
from alerts.receiver import Answer, Outcome
from alerts.settings import AlertsSettings
from runtime.clock import Clock
from schemas import AlertState, Incident

OPEN_MS = 30 * 86_400_000
"""An open alert ends by itself after a month, should nobody be left to end it."""

VALUE_LIMIT = 256


class Alertmanager:
    """The receiver. Grouping and timing are Alertmanager's own; labels follow Prometheus's conventions."""

    name = "alertmanager"
    rate = (600, 60.0)
    refresh_s = 60.0

    def __init__(self, settings: AlertsSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._http = Http(settings.alerts_ca, settings.alerts_timeout_s)
        self._url = settings.alertmanager_url.rstrip("/") + "/api/v2/alerts"
        login = f"{settings.alertmanager_user}:{settings.alertmanager_password}" if settings.alertmanager_user else None
        self._headers = dict(urllib3.make_headers(basic_auth=login)) if login else {}

    def render(self, incident: Incident, action: str) -> bytes:
        """The list of one alert."""
        said = content(incident, self._settings.runbook_url)
        annotations = {
            "summary": said.title,
            "description": "\n".join(filter(None, (said.in_full, *said.evidence))),
            "impact": said.impact,
            "action": said.action,
            "members": ", ".join(said.members),
            "runbook_url": said.link,
            "sql": said.sql,
        }
        over = action == "resolve"
        alert: dict[str, Any] = {
            "labels": labels(incident),
            "annotations": {name: text for name, text in annotations.items() if text},
            "startsAt": said.since,
            "endsAt": iso((incident.resolved_ms or incident.ts_ms) if over else incident.ts_ms + OPEN_MS),
        }
        return json.dumps([alert], ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()

    def route(self, incident: Incident) -> str:
        return ""

    def knows(self, route: str) -> bool:
        return True

    def deliver(self, attempt: AlertState) -> Answer:
        """Post it; then end what is open of the same incident under labels of before."""
        try:
            answer = judge(self._http.send("POST", self._url, attempt.body, self._headers))
            if answer.outcome is not Outcome.DELIVERED or attempt.action == "trigger":
                return answer
            wanted = f"{self._url}?filter={quote(f'incident={json.dumps(attempt.incident)}')}"
            found = self._http.send("GET", wanted, None, self._headers)
            if judge(found).outcome is not Outcome.DELIVERED:
                return judge(found)
            old = self._to_end(found.body, json.loads(attempt.body)[0]["labels"])
            return judge(self._http.send("POST", self._url, old, self._headers)) if old else answer
        except NoReply as none:
            return none.answer()

    def _to_end(self, found: bytes, now: dict[str, str]) -> bytes:
        """The alerts among `found` that have other labels, ended now; b"" where there are none, or none that can be
        read."""
        at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat()
        try:
            alerts = [
                {"labels": alert["labels"], "startsAt": alert["startsAt"], "endsAt": max(at, alert["startsAt"])}
                for alert in json.loads(found)
                if alert["labels"] != now
            ]
        except (ValueError, TypeError, KeyError, RecursionError):
            return b""
        return json.dumps(alerts).encode() if alerts else b""


def labels(incident: Incident) -> dict[str, str]:
    """What the alert is: empty labels are left out, as Prometheus does."""
    first = incident.culprits[0] if incident.culprits else None
    said = content(incident)
    found = {
        "alertname": "Lockstep" + "".join(word.capitalize() for word in incident.cause.split("_")),
        "severity": said.level,
        "cluster": incident.cluster,
        "incident": incident.id,
        "cause": incident.cause,
        "kind": incident.kind,
        "scope": incident.scope,
        "team": said.team,
        "node": first.node if first else "",
        "gpu": first.gpu if first else "",
        "rack": first.rack if first else "",
        "job_id": incident.job,
    }
    return {name: shown for name, value in found.items() if (shown := plain(value)[:VALUE_LIMIT])}
