"""The generic webhook: signed, and in the words that its template gives."""

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from alert_receivers import HttpReceiver
from fake_clock import FakeClock

from alerts.settings import AlertsSettings
from alerts.webhook import NAMES, Webhook
from runtime.errors import UserError
from schemas import AlertState, Incident
from schemas.examples import EXAMPLES

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))


def webhook(url: str = "https://127.0.0.1:1/hook", **settings: str) -> Webhook:
    return Webhook(AlertsSettings(webhook_url=url, **settings), FakeClock())


def template(folder: Path, text: str) -> str:
    path = folder / "template.json"
    path.write_text(text)
    return str(path)


def test_without_a_template_everything_is_told() -> None:
    said = json.loads(webhook().render(INCIDENT, "resolve"))
    assert set(said) == NAMES
    assert (said["status"], said["cause"], said["victims"]) == ("resolved", "gpu_degraded", 511)
    assert said["evidence"] == ["power 512 W against 690 W of its own past"]


def test_a_template_says_it_in_the_words_of_its_service(tmp_path: Path) -> None:
    path = template(
        tmp_path, '{"text": "[${level}] ${title}: ${evidence}", "tags": "${culprits}", "n": ["${victims}", 7, null]}'
    )
    said = json.loads(webhook(webhook_template=path).render(INCIDENT, "trigger"))
    assert said["text"].startswith("[critical] GPU degraded: rank 7 on r01-t02")
    assert said["text"].endswith(": power 512 W against 690 W of its own past")
    assert said["tags"] == ["rank 7 (GPU GPU-00000000-0000-0000-0000-000000000007 on r01-t02)"]
    assert said["n"] == [511, 7, None]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON"),
        ('{"a": "${titel}"}', "no name titel; there are action"),
        ("[" * 100_000, "nested too deep"),
        ("[" * 900 + "]" * 900, "nested too deep"),
        ('{"a": NaN}', "NaN is no number of JSON's"),
        (r'"\ud800 ${title}"', "no JSON .*surrogates"),
    ],
)
def test_a_template_that_cannot_be_meant_is_one_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UserError, match=why) as caught:
        webhook(webhook_template=template(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_the_signature_proves_sender_and_time() -> None:
    with HttpReceiver(lambda request: (200, {}, b"")) as place:
        receiver = webhook(place.url, webhook_secret="s3cret")
        body = receiver.render(INCIDENT, "trigger")
        attempt = AlertState(
            cluster="eos", ts_ms=0, receiver="webhook", incident=INCIDENT.id, revision=0, action="trigger",
            status="intent", attempts=1, body=body,
        )  # fmt: skip
        receiver.deliver(attempt)
        receiver.deliver(attempt)
        first, again = place.requests
    seconds, signed = (part.split("=")[1] for part in first.headers["X-Lockstep-Signature"].split(","))
    assert int(seconds) == FakeClock().now_ms() // 1000
    assert signed == hmac.new(b"s3cret", seconds.encode() + b"." + first.body, hashlib.sha256).hexdigest()
    assert first.headers["X-Lockstep-Delivery"] == again.headers["X-Lockstep-Delivery"] == f"{INCIDENT.id}/0/trigger"
