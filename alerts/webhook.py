"""Any service that takes JSON over HTTP: one signed request for each moment of an incident.

`X-Lockstep-Signature: t=SECONDS,v1=HEX` holds HMAC-SHA256 of "SECONDS.BODY" under the secret; a receiver that compares
it, and refuses what is older than some minutes, knows who sent it. `X-Lockstep-Delivery` is the same for a repeat.
"""

import hashlib
import hmac
import json
import re
from pathlib import Path
from typing import Any

from alerts.content import Content, content
from alerts.http import Http, NoReply, judge
from alerts.receiver import Answer
from alerts.settings import AlertsSettings
from runtime.clock import Clock
from runtime.errors import UserError
from schemas import AlertState, Incident

BODY_LIMIT = 512_000
_NAME = re.compile(r"\$\{(\w+)\}")
NAMES = frozenset(Content._fields) | {"action", "status", "revision", "kind", "scope"}
"""What a template may name."""


class Webhook:
    """The receiver. Without a template the body has every name."""

    name = "webhook"
    rate = (600, 60.0)
    refresh_s = 0.0

    def __init__(self, settings: AlertsSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._http = Http(settings.alerts_ca, settings.alerts_timeout_s)
        self._template = load(settings.webhook_template) if settings.webhook_template else None

    def render(self, incident: Incident, action: str) -> bytes:
        """The template with its names filled in, or all of them; without evidence and SQL where it grows too large."""
        names = values(incident, action, self._settings.runbook_url)
        body = _encode(names if self._template is None else fill(self._template, names))
        if len(body) > BODY_LIMIT:
            short = names | {"evidence": [], "sql": "", "members": [], "culprits": []}
            body = _encode(short if self._template is None else fill(self._template, short))
        return body

    def route(self, incident: Incident) -> str:
        return ""

    def knows(self, route: str) -> bool:
        return True

    def deliver(self, attempt: AlertState) -> Answer:
        headers = {"X-Lockstep-Delivery": f"{attempt.incident}/{attempt.revision}/{attempt.action}"}
        if self._settings.webhook_secret:
            seconds = self._clock.now_ms() // 1000
            headers["X-Lockstep-Signature"] = signature(self._settings.webhook_secret, seconds, attempt.body)
        try:
            return judge(self._http.send("POST", self._settings.webhook_url, attempt.body, headers))
        except NoReply as none:
            return none.answer()


def signature(secret: str, seconds: int, body: bytes) -> str:
    """The header that proves who sent `body`, and when."""
    signed = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={signed}"


def values(incident: Incident, action: str, runbooks: str) -> dict[str, Any]:
    """Every name a template may use, and its value."""
    said = content(incident, runbooks)._asdict()
    more = {"action": action, "status": "resolved" if action == "resolve" else "firing", "revision": incident.revision}
    return said | more | {"kind": incident.kind, "scope": incident.scope}


def load(path: str) -> Any:
    """The template at `path`; UserError in one line where it is no JSON, or names what there is not."""
    try:
        template = json.loads(Path(path).read_text("utf-8"), parse_constant=_no_number)
        strange = sorted(set(_NAME.findall(json.dumps(template))) - NAMES)
        if not strange:
            _encode(fill(template, dict.fromkeys(NAMES, "")))  # not only when somebody is to be told
    except OSError as error:
        raise UserError(f"LOCKSTEP_WEBHOOK_TEMPLATE={path}: {error.strerror}") from None
    except RecursionError:
        raise UserError(f"LOCKSTEP_WEBHOOK_TEMPLATE={path}: it is nested too deep") from None
    except ValueError as error:  # no JSON, no UTF-8, or half of a character
        raise UserError(f"LOCKSTEP_WEBHOOK_TEMPLATE={path}: no JSON ({error})") from None
    if strange:
        raise UserError(f"LOCKSTEP_WEBHOOK_TEMPLATE={path}: no name {strange[0]}; there are {', '.join(sorted(NAMES))}")
    return template


def _no_number(said: str) -> float:
    raise ValueError(f"{said} is no number of JSON's")


def fill(template: Any, names: dict[str, Any]) -> Any:
    """`template` with each ${name} replaced. A text that is nothing but one name becomes its value, lists and numbers
    as such; within a longer text lists are joined."""
    if isinstance(template, dict):
        return {key: fill(value, names) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(value, names) for value in template]
    if not isinstance(template, str):
        return template
    whole = _NAME.fullmatch(template)
    return names[whole[1]] if whole else _NAME.sub(lambda found: _text(names[found[1]]), template)


def _text(value: Any) -> str:
    return "; ".join(str(item) for item in value) if isinstance(value, tuple | list) else str(value)


def _encode(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
