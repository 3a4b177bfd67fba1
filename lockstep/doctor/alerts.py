"""Whether somebody would be paged, and what became of the pages so far; nothing is sent."""

import importlib.util
from collections.abc import Mapping

from lockstep.doctor.check import Check, Machine
from runtime.errors import UserError
from runtime.settings import from_environment
from schemas import AlertState, Silence

SETUP = "set LOCKSTEP_PAGERDUTY_ROUTING_KEY (or another receiver: docs/alerts.md) for `lockstep alerts`"
RECEIVERS = ("PAGERDUTY_ROUTING_KEY", "WEBHOOK_URL", "ALERTMANAGER_URL", "SLACK_TOKEN")
"""What the variables that turn a receiver on begin with."""


def receivers(machine: Machine) -> list[Check]:
    """The receivers that are set up, and whether their settings make sense."""
    if not is_set_up(machine.environment):
        return [Check("", "absent", "nobody is paged from here", SETUP)]
    if importlib.util.find_spec("urllib3") is None:
        return [Check("", "broken", "receivers are set up, urllib3 is missing", "pip install 'gpu-lockstep[alerts]'")]
    from alerts.pagerduty import keys
    from alerts.service import AlertsSettings
    from alerts.service import receivers as made

    try:
        settings = from_environment(AlertsSettings, machine.environment)
        found = made(settings, machine.clock)
    except UserError as error:
        return [Check("", "broken", str(error), "correct the variable")]
    seen = {
        "pagerduty": f"PagerDuty at {settings.pagerduty_url}, keys of the right form for {', '.join(keys(settings))}",
        "webhook": f"webhook at {settings.webhook_url}, {'signed' if settings.webhook_secret else 'not signed'}",
        "alertmanager": f"Alertmanager at {settings.alertmanager_url}",
        "slack": f"Slack channel {settings.slack_channel}",
    }
    checks = [Check("", "ok", seen[receiver.name], "`lockstep alerts test` tries it") for receiver in found]
    if not settings.runbook_url:
        checks.append(Check("", "absent", "pages have no link to a runbook", "set LOCKSTEP_RUNBOOK_URL"))
    return checks


def pages(machine: Machine) -> list[Check]:
    """What the alerter has left to do, from the topic of its state; where a broker was named."""
    if "broker" not in machine.given:
        return [Check("", "absent", "not looked at: no broker was named")]
    if importlib.util.find_spec("urllib3") is None:
        return [Check("", "absent", "not looked at", "pip install 'gpu-lockstep[alerts]'")]
    from alerts.known import Known
    from runtime.settings import Connection

    agent = machine.agent
    try:
        known = Known(Connection(**{name: getattr(agent, name) for name in Connection.__struct_fields__}))
    except UserError as error:
        return [Check("", "absent", f"not looked at: {error}")]
    known.close()
    return judge(known.records, machine.clock.now_ms())


def judge(records: tuple[AlertState | Silence, ...], now_ms: int) -> list[Check]:
    """What the newest record of each page and silence says."""
    from alerts.outbox import GONE, untold_since_ms
    from alerts.silences import active

    states = [record for record in records if isinstance(record, AlertState)]
    waiting = [(since, s) for s in states if not s.held and (since := untold_since_ms(s)) is not None]
    open_now = sum(s.status == "delivered" and not s.attempted_resolve for s in states)
    silences = [s for s in records if isinstance(s, Silence) and active(s, now_ms)]
    said = f"{open_now} open, {len(waiting)} to be sent, {sum(bool(s.held) for s in states)} held"
    checks = [Check("", "ok", f"{said}, {len(silences)} silences")]
    if waiting:
        since, oldest = min(waiting, key=lambda one: one[0])
        minutes = max(0, now_ms - since) // 60_000
        tried = [s for _, s in waiting if s.status == "intent"]
        said = next((s.response for s in (oldest, *tried) if s in tried and s.response), "")
        why = f" ({said})" if said else ""
        if minutes >= 2 or any(s.attempts > 1 for s in tried):
            checks.append(
                Check("", "attention", f"{oldest.incident} waits for {oldest.receiver} since {minutes} min{why}",
                      "is `lockstep alerts` running? `lockstep alerts test` says what the receiver answers")
            )  # fmt: skip
    stuck = [s for s in states if s.response == GONE]
    if stuck:
        named = ", ".join(s.incident for s in stuck[:3])
        checks.append(
            Check("", "attention", f"{len(stuck)} pages were left open under keys that are gone: {named}",
                  "close them by hand; give old keys in LOCKSTEP_PAGERDUTY_ROUTING_KEYS_BEFORE")
        )  # fmt: skip
    return checks


def is_set_up(environment: Mapping[str, str]) -> bool:
    """Whether any receiver has its variable."""
    begins = tuple(f"LOCKSTEP_{name}" for name in RECEIVERS)
    return any(value and name.startswith(begins) for name, value in environment.items())
