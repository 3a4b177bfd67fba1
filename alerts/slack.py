"""Slack: one message for each incident, edited in place until it is over.

Rules used here (Slack's Web API): chat.postMessage answers with the channel and `ts` that name the message for
chat.update; errors come with status 200 and `ok` false, 429 with Retry-After; about one message a second and channel;
a section's text up to 3,000 characters, a message's text up to 4,000 before it is cut.

A post whose answer was lost may be there: before it is repeated, it is looked for in the channel's newest messages by
its metadata. That needs the scope to read the channel's history; without it such a post may be there twice.
"""

import json
from typing import Any
from urllib.parse import quote

from alerts.content import Content, content, cut
from alerts.http import Http, NoReply, Reply, judge
from alerts.receiver import Answer, Outcome
from alerts.settings import AlertsSettings
from schemas import AlertState, Incident

SECTION_LIMIT = 3000
EVENT = "lockstep_incident"
SEARCHED, MESSAGE_BYTES = 100, 32 * 1024
"""So many of the newest messages are looked at; one of ours may have three full sections, escaped twice."""

SIGNS = {"critical": ":red_circle:", "error": ":large_orange_circle:", "warning": ":large_yellow_circle:"}

LATER = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"})
PERSON = frozenset(
    (
        "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "missing_scope",
        "no_permission", "channel_not_found", "not_in_channel", "is_archived", "access_denied",
    )
)  # fmt: skip
"""Errors that a person must remove: the token, its scopes, or the channel."""


class Slack:
    """The receiver: a bot's token with chat:write, and a channel."""

    name = "slack"
    rate = (50, 60.0)
    refresh_s = 0.0

    def __init__(self, settings: AlertsSettings) -> None:
        self._settings = settings
        self._http = Http(settings.alerts_ca, settings.alerts_timeout_s)
        self._headers = {
            "Authorization": f"Bearer {settings.slack_token}",
            "Content-Type": "application/json; charset=utf-8",
        }

    def render(self, incident: Incident, action: str) -> bytes:
        """The message without channel and token."""
        said = content(incident, self._settings.runbook_url)
        sign = ":white_check_mark: Over:" if action == "resolve" else SIGNS.get(said.level, ":information_source:")
        message = {
            "text": f"{sign} {_plain(said.title)}",
            "blocks": [_section(text) for text in _texts(said, sign)],
            "metadata": {"event_type": EVENT, "event_payload": {"incident": incident.id}},
        }
        return json.dumps(message, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()

    def route(self, incident: Incident) -> str:
        return self._settings.slack_channel

    def knows(self, route: str) -> bool:
        """A message can be edited in whatever channel it is."""
        return True

    def deliver(self, attempt: AlertState) -> Answer:
        try:
            handle = attempt.handle or (self._search(attempt) if attempt.attempts > 1 else "")
            if isinstance(handle, Answer):
                return handle
            if handle:
                channel, _, ts = handle.partition("/")
                answer = self._call("chat.update", json.loads(attempt.body) | {"channel": channel, "ts": ts})
                if "message_not_found" not in answer.text:
                    return answer._replace(handle=handle)
            if attempt.action == "resolve":
                return Answer(Outcome.DELIVERED, "the message is not there any more")
            channel = attempt.route or self._settings.slack_channel
            return self._call("chat.postMessage", json.loads(attempt.body) | {"channel": channel})
        except NoReply as none:
            return none.answer()

    def _call(self, method: str, message: dict[str, Any]) -> Answer:
        body = json.dumps(message, ensure_ascii=False).encode()
        return answered(self._http.send("POST", f"{self._settings.slack_url}/{method}", body, self._headers))

    def _search(self, attempt: AlertState) -> str | Answer:
        """Where the message is, if a request whose answer was lost has put it there; the answer where Slack would say
        it later."""
        channel = attempt.route or self._settings.slack_channel
        query = f"channel={quote(channel)}&limit={SEARCHED}&include_all_metadata=true"
        url = f"{self._settings.slack_url}/conversations.history?{query}"
        reply = self._http.send("GET", url, None, self._headers, SEARCHED * MESSAGE_BYTES)
        answer = answered(reply)
        if answer.outcome in (Outcome.RETRY, Outcome.RETRY_LATE):
            return answer
        messages = _object(reply.body).get("messages")
        for message in map(_as_object, messages if isinstance(messages, list) else ()):
            payload = _as_object(_as_object(message.get("metadata")).get("event_payload"))
            if payload.get("incident") == attempt.incident and message.get("ts"):
                return f"{channel}/{message['ts']}"
        return ""


def answered(reply: Reply) -> Answer:
    """What Slack's answer means: its status, then its own word in the body."""
    answer = judge(reply)
    if answer.outcome is not Outcome.DELIVERED:
        return answer
    said = _object(reply.body)
    if said.get("ok") is True:
        return Answer(Outcome.DELIVERED, "ok", handle=f"{said.get('channel', '')}/{said.get('ts', '')}")
    error = str(said.get("error") or "no answer of Slack's")
    if error in ("ratelimited", "rate_limited"):
        return Answer(Outcome.RETRY_LATE, error, after_s=reply.after_s, arrived=False)
    if error in PERSON:
        return Answer(Outcome.KEY_REFUSED, error, arrived=False)
    return Answer(Outcome.RETRY if error in LATER or not said else Outcome.REJECTED, error)


def _texts(said: Content, sign: str) -> list[str]:
    facts = [f"*{sign} {_plain(said.title)}*", _plain(said.in_full), f"_{_plain(said.meaning)}_, for {said.team}"]
    if said.members:
        facts.append("With " + _plain(", ".join(said.members)))
    found = ["\n".join(filter(None, facts)), "\n".join(f"• {_plain(text)}" for text in said.evidence)]
    page = f"<{said.link}|Runbook>" if said.link else f"Runbook: {said.runbook}"
    found.append(f"*Do*: {_plain(said.action)}\n{page}")
    found.append(f"```{_plain(said.sql)}```" if said.sql and len(said.sql) < SECTION_LIMIT - 100 else "")
    return [text for text in found if text]


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": cut(text, SECTION_LIMIT)}}


def _plain(text: str) -> str:
    """Slack's three control characters, escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _object(body: bytes) -> dict[str, Any]:
    try:
        return _as_object(json.loads(body))
    except (ValueError, RecursionError):
        return {}


def _as_object(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}
