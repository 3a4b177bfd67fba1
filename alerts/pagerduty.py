"""PagerDuty, Events API v2: an incident becomes one alert with a stable dedup key.

Rules used here (developer documentation of the Events API v2): summary up to 1,024 characters, severity one of
critical, error, warning, info; an event up to 512 KB; 202 accepted, 400 never to be retried, 429 and 5xx to be
retried; some 120 events a minute for one key; a trigger with the dedup key of an open alert is added to it, one after
its resolve opens a new incident; dedup keys of different routing keys have nothing to do with each other.
"""

import json
from typing import Any

from alerts.content import Content, content, cut
from alerts.http import Http, NoReply, judge
from alerts.manners import team
from alerts.receiver import Answer, Outcome
from alerts.settings import AlertsSettings
from schemas import AlertState, Incident
from schemas.identity import digest

SUMMARY_LIMIT = 1024
BODY_LIMIT = 512_000
RATE = (100, 60.0)
"""Events in seconds: some of the documented 120 a minute are left for others with the same key."""


class PagerDuty:
    """The receiver: renders incidents and makes one HTTPS request per delivery. Each team may have a key of its own."""

    name = "pagerduty"
    rate = RATE
    refresh_s = 0.0

    def __init__(self, settings: AlertsSettings) -> None:
        self._settings = settings
        self._http = Http(settings.pagerduty_ca, settings.pagerduty_timeout_s)
        before = filter(None, settings.pagerduty_routing_keys_before.split(","))
        self._keys = {_hash(key): key for key in (*before, *keys(settings).values())}

    def render(self, incident: Incident, action: str) -> bytes:
        """The event without its routing key, at most 512 KB: details are left out before it grows over that."""
        event: dict[str, Any] = {
            "event_action": "resolve" if action == "resolve" else "trigger",
            "dedup_key": incident.id,
        }
        if action != "resolve":
            said = content(incident, self._settings.runbook_url)
            event["client"] = "Lockstep"
            event["payload"] = _payload(incident, said)
            if said.link:
                event["links"] = [{"href": said.link, "text": f"Runbook: {said.cause}"}]
        body = _encode(event)
        if len(body) > BODY_LIMIT:
            event["payload"]["custom_details"] = {"note": "details were too large for PagerDuty", "id": incident.id}
            body = _encode(event)
        return body

    def route(self, incident: Incident) -> str:
        """Its team where that has a key, else "default" (else the first that has one), and a hash of the key."""
        known = keys(self._settings)
        name = next((name for name in (team(incident), "default", *known) if name in known), "")
        return f"{name}#{_hash(known[name])}" if name else ""

    def knows(self, route: str) -> bool:
        return not route or route.partition("#")[2] in self._keys

    def deliver(self, attempt: AlertState) -> Answer:
        key = self._keys.get(attempt.route.partition("#")[2], self._settings.pagerduty_routing_key)
        event = {"routing_key": key} | json.loads(attempt.body)
        try:
            reply = self._http.send("POST", self._settings.pagerduty_url, _encode(event))
        except NoReply as none:
            return none.answer()
        if reply.status == 400 and _names_the_key(reply.body):
            return Answer(Outcome.KEY_REFUSED, reply.text, arrived=False)
        return judge(reply, 202)


def keys(settings: AlertsSettings) -> dict[str, str]:
    """The routing keys in use, by team, and "default" for the teams without one."""
    known = {
        "default": settings.pagerduty_routing_key,
        "hardware": settings.pagerduty_routing_key_hardware,
        "network": settings.pagerduty_routing_key_network,
        "facilities": settings.pagerduty_routing_key_facilities,
        "job owner": settings.pagerduty_routing_key_job_owner,
        "operations": settings.pagerduty_routing_key_operations,
    }
    return {name: key for name, key in known.items() if key}


def _hash(key: str) -> str:
    """Tells keys apart without telling them: 32 bits of a hash of 32 random characters."""
    return digest("pagerduty", key)[:8]


def _names_the_key(body: bytes) -> bool:
    """Whether a 400 is about the routing key, whose name its list of errors holds."""
    return b"routing_key" in body or b"routing key" in body.lower() or b"integration key" in body.lower()


def _payload(incident: Incident, said: Content) -> dict[str, Any]:
    details = {
        "what": said.meaning,
        "in full": said.in_full,
        "where": said.where,
        "impact": said.impact,
        "for the team": said.team,
        "confidence": said.confidence,
        "also possible": said.also_possible,
        "culprits": said.culprits,
        "members": said.members,
        "victims": said.victims,
        "since": said.since,
        "evidence": said.evidence,
        "what to do": said.action,
        "runbook": said.runbook,
        "look further (SQL)": said.sql,
        "job": said.job,
    }
    return {
        "summary": cut(said.title, SUMMARY_LIMIT),
        "source": cut(said.source, 255),
        "severity": said.level,
        "timestamp": said.since,
        "component": cut(incident.scope, 255),
        "group": cut(incident.cluster, 255),
        "class": incident.cause,
        "custom_details": {name: value for name, value in details.items() if value not in ("", (), 0)},
    }


def _encode(event: dict[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
