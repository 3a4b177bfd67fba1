"""`lockstep alerts`: page people; try that out; silence; say what would have been sent."""

import contextlib
import getpass
import json
import os
from typing import Any, get_args

import click
from msgspec.structs import replace

from alerts.known import Known
from alerts.manners import HOLDS, least
from alerts.rehearsal import Sent, rehearse
from alerts.service import RECEIVERS, AlertsSettings, receivers, run
from alerts.silences import active
from alerts.trial import Step, try_out
from lockstep.group import Group
from lockstep.moments import duration_ms, moment_ms, shown
from lockstep.options import run_until_signal, say, settings, settings_options
from lockstep.reach import put, reach
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.settings import ClickHouse, Connection
from schemas import Silence
from schemas.causes import Cause
from schemas.identity import digest
from schemas.record import LAST_MS

FORMAT = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the answer."
)


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog="Example: LOCKSTEP_PAGERDUTY_ROUTING_KEY=... lockstep alerts --broker kafka-1:9092",
)
@settings_options(AlertsSettings)
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Page people: incidents to PagerDuty, Slack, Alertmanager or a webhook. Without a sub-command it runs until it is
    stopped. Keys, tokens and secrets come from the environment only; docs/alerts.md names them.
    """
    context.obj = options
    if context.invoked_subcommand is None:
        chosen = settings(AlertsSettings, options)
        run_until_signal("alerts", lambda stop: run(chosen, stop))


@command.command(
    short_help="Try out every receiver that is set up.",
    epilog="Example: LOCKSTEP_PAGERDUTY_ROUTING_KEY=... lockstep alerts test",
)
@settings_options(AlertsSettings)
@FORMAT
@click.pass_context
def test(context: click.Context, /, form: str, **options: Any) -> None:
    """Open and close a marked test event at every receiver and team that is set up, and say what happened.

    Exit status 1 where one of them did not take it.
    """
    chosen = settings(AlertsSettings, _given(context, options))
    clock = SystemClock()
    steps = try_out(
        receivers(chosen, clock),
        chosen.cluster,
        clock,
        (lambda step: click.echo(_step(step))) if form == "text" else _no,
    )
    if form == "json":
        click.echo(json.dumps([step._asdict() for step in steps], indent=2))
    if not all(step.ok for step in steps):
        raise click.exceptions.Exit(1)


@command.command(
    "dry-run",
    short_help="What would have been sent in a period.",
    epilog="Example: lockstep alerts dry-run --since 24h --clickhouse-host ch-1",
)
@settings_options(AlertsSettings)
@settings_options(ClickHouse)
@click.option("--since", default="24h", show_default=True, help="From when: 2026-11-30T14:00 (UTC), or 2h for ago.")
@click.option("--until", default="now", show_default=True, help="Until when.")
@FORMAT
@click.pass_context
def dry_run(context: click.Context, /, since: str, until: str, form: str, **options: Any) -> None:
    """Print what would have been sent for the incidents of a period, and what would have waited and why.

    They come from ClickHouse; nothing is sent. Without any receiver set up it is shown as for PagerDuty.
    """
    from storage.client import get_client
    from storage.queries import incident_history, silences

    given = _given(context, options)
    chosen, clock = settings(AlertsSettings, given), SystemClock()
    begin, end = (
        moment_ms(since, "--since", clock.now_ms()),
        moment_ms(until, "--until", clock.now_ms()),
    )
    if begin >= end:
        raise UserError(f"--since={since!r} is not before --until={until!r}")
    try:
        made = receivers(chosen, clock)
    except UserError:
        if any(make(chosen, clock) for make in RECEIVERS.values()):
            raise
        stand_in = RECEIVERS["pagerduty"](replace(chosen, pagerduty_routing_key="0" * 32), clock)
        made = [stand_in] if stand_in is not None else []
        say("no receiver is set up: shown as for PagerDuty")
    cluster = chosen.cluster if chosen.cluster != "default" else ""
    with contextlib.closing(get_client(settings(ClickHouse, given))) as client:
        told = incident_history(client, cluster=cluster, since_ms=begin, until_ms=end)
        known = silences(client, cluster=cluster)
    sent = rehearse(told, made, known, (*HOLDS, least(chosen.alerts_least)))
    if form == "json":
        click.echo(json.dumps([_as_json(one) for one in sent], indent=2))
        return
    for one in sent:
        click.echo(
            f"{shown(one.ts_ms)}  {one.receiver:<12} {one.action:<8} {one.level:<8} {one.incident}  {_said(one)}"
        )
    pages = sum(one.action == "trigger" for one in sent)
    click.echo(
        f"{len({i.id for i in told})} incidents, {pages} pages, {sum(one.action != 'held' for one in sent)} requests"
    )


@command.group(cls=Group, short_help="No pages about something for a while.")
def silence() -> None:
    """No pages about something for a while: add, list, end. What was paged already is still closed."""


@silence.command(
    short_help="Add a silence.",
    epilog="Example: lockstep alerts silence add --rack r03 --for 4h --reason 'pump replaced'",
)
@settings_options(Connection)
@click.option("--rack", default="", help="This rack; r0* for all that begin so.")
@click.option("--node", default="", help="This node; r03-* for all that begin so.")
@click.option("--job", default="", help="This job.")
@click.option("--cause", type=click.Choice(get_args(Cause)), metavar="CAUSE", help="This cause.")
@click.option("--everything", is_flag=True, help="The whole cluster.")
@click.option("--for", "lasts", required=True, help="How long: 30m, 2h, 7d.")
@click.option("--from", "begins", default="now", show_default=True, help="From when (UTC): a window to come.")
@click.option("--reason", required=True, help="Why; people will read it.")
@click.option("--author", default="", help="Who asks for it; you, if not given.")
def add(
    rack: str, node: str, job: str, cause: Cause | None, everything: bool, lasts: str, begins: str, reason: str,
    author: str, **options: Any,
) -> None:  # fmt: skip
    """Add a silence. What is given must all hold: --rack r03 --cause coolant_flow is that cause in that rack."""
    if not (rack or node or job or cause or everything):
        raise UserError("say what to silence: --rack, --node, --job, --cause, or --everything")
    if everything and (rack or node or job or cause):
        raise UserError("--everything is the whole cluster: leave it out, or what narrows it")
    for option, pattern in (("--rack", rack), ("--node", node), ("--job", job)):
        _meant(option, pattern)
    why = _plain(reason)
    if not why:
        raise UserError("--reason is empty: say why, people will read it")
    connection, now_ms = settings(Connection, options), SystemClock().now_ms()
    begin = moment_ms(begins, "--from", now_ms)
    until = begin + duration_ms(lasts, "--for")
    if until <= now_ms:
        raise UserError(f"the silence would have ended at {shown(until)} already")
    if until > LAST_MS:
        raise UserError(f"--for={lasts!r} --from={begins!r}: the silence would last beyond {shown(LAST_MS)}")
    who = _plain(author) or _user()
    made = Silence(
        cluster=connection.cluster,
        ts_ms=now_ms,
        id="s-" + digest(connection.cluster, who, now_ms, rack, node, job, cause),
        author=who[:256],
        reason=why[:256],
        from_ms=begin,
        until_ms=until,
        rack=rack,
        node=node,
        job=job,
        cause=cause,
    )
    _store(connection, made)
    click.echo(f"{made.id}  {_silence(made)}")


@silence.command("list", epilog="Example: lockstep alerts silence list --all")
@settings_options(Connection)
@click.option("--all", "every", is_flag=True, help="Those that are over as well.")
@FORMAT
def list_(every: bool, form: str, **options: Any) -> None:
    """Show the silences that hold or are to come."""
    now_ms = SystemClock().now_ms()
    found = [s for s in _silences(settings(Connection, options)) if every or (not s.ended and s.until_ms > now_ms)]
    if form == "json":
        names = ("id", "author", "reason", "from_ms", "until_ms", "rack", "node", "job", "cause", "ended")
        click.echo(
            json.dumps([{n: getattr(s, n) for n in names} | {"active": active(s, now_ms)} for s in found], indent=2)
        )
        return
    for one in found:
        state = (
            "ended" if one.ended else "active" if active(one, now_ms) else "later" if one.from_ms > now_ms else "over"
        )
        click.echo(f"{one.id}  {state:<6} {_silence(one)}")
    if not found:
        click.echo("no silences")


@silence.command(
    short_help="End a silence before its time.", epilog="Example: lockstep alerts silence end s-00000000000000c3"
)
@settings_options(Connection)
@click.argument("silence_id")
def end(silence_id: str, **options: Any) -> None:
    """End a silence before its time; what it held back and is still open is paged then."""
    connection = settings(Connection, options)
    found = next((s for s in _silences(connection) if s.id == silence_id), None)
    if found is None:
        raise UserError(
            f"no silence {silence_id} in cluster {connection.cluster}: `lockstep alerts silence list --all`"
        )
    _store(connection, replace(found, ended=True, ts_ms=SystemClock().now_ms()))
    click.echo(f"{found.id}  ended")


def _given(context: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """The options of the sub-command, and before them those of `lockstep alerts` itself."""
    outer = context.obj or {}
    return options | {name: value for name, value in outer.items() if options.get(name) is None}


def _meant(option: str, pattern: str) -> None:
    """UserError for what could never hold: nobody notices that a silence covers nothing until a page comes."""
    if "*" in pattern[:-1]:
        raise UserError(f"{option}={pattern!r}: a * is for any rest and stands at the end only")
    if _plain(pattern) != pattern:
        raise UserError(f"{option}={pattern!r}: no name begins or ends with blanks or has control characters in it")


def _user() -> str:
    """Who runs this; in a container a user may have only a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _plain(text: str) -> str:
    """One line without what moves a cursor or turns a line around: it stands in lists, logs and pages."""
    return "".join(filter(str.isprintable, " ".join(text.split())))


def _silences(connection: Connection) -> list[Silence]:
    reach(connection, _no)
    with contextlib.closing(Known(connection)) as known:
        found = [r for r in known.records if isinstance(r, Silence) and r.cluster == connection.cluster]
        return sorted(found, key=lambda s: (s.from_ms, s.id))


def _store(connection: Connection, silence: Silence) -> None:
    reach(connection, _no)
    put(connection, silence, "the silence was not stored")


def _silence(silence: Silence) -> str:
    about = [f"{name} {value}" for name in ("rack", "node", "job", "cause") if (value := getattr(silence, name))]
    return (
        f"{', '.join(about) or 'everything'} until {shown(silence.until_ms)} UTC"
        f" (from {shown(silence.from_ms)}), {silence.author}: {silence.reason}"
    )


def _step(step: Step) -> str:
    mark = "ok" if step.ok else "XX"
    route = f" ({step.route})" if step.route else ""
    return f"{mark}  {step.receiver}{route}: {step.action} {step.outcome} in {step.seconds:g} s: {step.answer}"


def _no(said: object) -> None:
    """Not said: JSON is printed as a whole, and a wait of a few seconds ends in one line."""


def _as_json(sent: Sent) -> dict[str, Any]:
    return sent._asdict() | {"body": json.loads(sent.body) if sent.body else None}


def _said(sent: Sent) -> str:
    if sent.why:
        return sent.why
    body = json.loads(sent.body)
    body = body[0] if isinstance(body, list) else body
    title = body.get("payload", body.get("annotations", body)).get("summary") or body.get("title") or body.get("text")
    return f"{sent.route + ' ' if sent.route else ''}{title or ''}".strip()
