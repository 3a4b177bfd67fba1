"""Everything the alerter is told. A receiver is on when its address or key is there."""

import os
import ssl
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from alerts.manners import Level
from runtime.errors import UserError
from runtime.settings import Connection, Positive, PrometheusPort

Url = Annotated[str, Meta(pattern=r"^$|^https?://")]
RoutingKey = Annotated[str, Meta(pattern=r"^([0-9A-Za-z]{32})?$")]


class AlertsSettings(Connection, frozen=True, kw_only=True):
    """Read from LOCKSTEP_* and the options of `lockstep alerts`; keys, tokens and secrets from the environment only."""

    runbook_url: Annotated[
        Url, Meta(description="Where your runbook pages are, one per cause; may have {cause} in it")
    ] = ""
    alerts_least: Annotated[Level, Meta(description="Nothing below this is sent")] = "info"
    alerts_ca: Annotated[str, Meta(description="CA file for the receivers below; the system's if not given")] = ""
    alerts_timeout_s: Annotated[Positive, Meta(description="The most a request to them may take")] = 10.0

    pagerduty_routing_key: RoutingKey = ""
    pagerduty_routing_key_hardware: RoutingKey = ""
    pagerduty_routing_key_network: RoutingKey = ""
    pagerduty_routing_key_facilities: RoutingKey = ""
    pagerduty_routing_key_job_owner: RoutingKey = ""
    pagerduty_routing_key_operations: RoutingKey = ""
    pagerduty_routing_keys_before: Annotated[str, Meta(pattern=r"^([0-9A-Za-z]{32}(,[0-9A-Za-z]{32})*)?$")] = ""
    pagerduty_url: Annotated[str, Meta(pattern=r"^https://", description="Where events go")] = (
        "https://events.pagerduty.com/v2/enqueue"
    )
    pagerduty_ca: Annotated[str, Meta(description="CA file to trust there instead of the system's")] = ""
    pagerduty_timeout_s: Annotated[Positive, Meta(description="The most a request may take")] = 10.0

    webhook_url: Annotated[Url, Meta(description="Incidents as JSON to this address")] = ""
    webhook_secret: str = ""
    webhook_template: Annotated[str, Meta(description="JSON file with ${...}: the body to send")] = ""

    alertmanager_url: Annotated[Url, Meta(description="Base address of an Alertmanager (version 2 of its API)")] = ""
    alertmanager_user: Annotated[str, Meta(description="User name there, if it asks for one")] = ""
    alertmanager_password: str = ""

    slack_token: str = ""
    slack_channel: Annotated[str, Meta(description="Channel id for Slack messages")] = ""
    slack_url: Annotated[str, Meta(pattern=r"^https?://", description="Where Slack's methods are")] = (
        "https://slack.com/api"
    )

    prometheus_port: PrometheusPort = 0


def check_files(settings: AlertsSettings) -> None:
    """UserError where a file that was named is not there, or is not what it should be."""
    for name in ("pagerduty_ca", "alerts_ca", "webhook_template"):
        path = getattr(settings, name)
        if path and not os.path.isfile(path):
            raise UserError(f"LOCKSTEP_{name.upper()}={path}: no such file")
        if path and name.endswith("_ca"):
            _check_ca(name, path)


def _check_ca(name: str, path: str) -> None:
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        said = getattr(error, "reason", None) or error.strerror
        raise UserError(f"LOCKSTEP_{name.upper()}={path}: {said}: give a PEM file of certificates") from None


def check_addresses(settings: AlertsSettings) -> None:
    """UserError where an address can never be reached. It is not said in full: its path or user may be a secret."""
    for name in ("pagerduty_url", "webhook_url", "alertmanager_url", "slack_url"):
        url = getattr(settings, name)
        try:
            parts = urlsplit(url)
            good = not url or bool(parts.hostname and parts.port != 0 and url.isprintable() and " " not in url)
        except ValueError:
            good = False
        if not good:
            raise UserError(f"LOCKSTEP_{name.upper()} is no address: give one like https://host:8443/path")
