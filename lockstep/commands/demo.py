"""`lockstep demo`: a simulated fleet with one fault, found and explained."""

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import click
import msgspec

from lockstep.demo import QUIET_S, Verdict, watch
from lockstep.local import data_folder, hold, services
from lockstep.options import program, settings, settings_options
from lockstep.progress import Progress
from lockstep.supervisor import Service, Supervisor
from lockstep.words import incident_text
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.ports import free_port
from runtime.settings import ClickHouse
from runtime.signals import set_on
from schemas.causes import CAUSES
from simulator.faults import FAULTS, UNUSED
from simulator.fleet import truth_of
from simulator.settings import FleetSettings

DEFAULTS: dict[str, Any] = {"fault": "gpu_degraded", "speed": 3.0}


@click.command(
    epilog="Example: lockstep demo --once\n\n"
    "Example: lockstep demo --fault thermal_throttle --target 137 --seed 3 --once --format json"
)
@settings_options(FleetSettings, hidden=("ticks", "start_ms"), defaults=DEFAULTS)
@click.option("--once", is_flag=True, help="Stop when the verdict is there; else all keeps running for your queries.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of the answer."
)
@click.option("--data", metavar="DIR", help="Keep the data here  [default: a temporary folder, removed]")
@click.option("--list-faults", is_flag=True, help="Show what can be put in, and stop.")
@click.option("--fail-on-incident", is_flag=True, help="Exit status 1 when an incident was found.")
def command(once: bool, form: str, data: str | None, list_faults: bool, fail_on_incident: bool, **options: Any) -> None:
    """Simulate 8 NVL72 racks with a 512-GPU job, put in one fault, and find it.

    The whole product runs on this machine: agents, broker, detection, ClickHouse's engine. --fault healthy puts in
    none. The truth is printed beside the verdict.
    """
    if list_faults:
        _list_faults(form)
        return
    chosen = {name: options[name] if options[name] is not None else DEFAULTS.get(name) for name in options}
    chosen["fault"] = "" if chosen["fault"] in ("healthy", "none") else chosen["fault"]
    clock = SystemClock()
    fleet = msgspec.structs.replace(settings(FleetSettings, chosen), start_ms=clock.now_ms() // 1000 * 1000)
    truth = truth_of(fleet)
    folder = data_folder(data or tempfile.mkdtemp(prefix="lockstep-demo-"), os.environ)
    spare = folder
    try:
        with hold(folder):
            verdict = _run(fleet, truth, folder, clock, form, once)
    except UserError:
        spare = folder / "clickhouse"  # the message names the log
        raise
    finally:
        if data is None:
            shutil.rmtree(spare, ignore_errors=True)
    sys.exit(1 if fail_on_incident and verdict.incidents else 0)


def _run(fleet: FleetSettings, truth: Any, folder: Path, clock: SystemClock, form: str, once: bool) -> Verdict:
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in _given(fleet).items()]
    simulate = Service(name="simulate", arguments=("simulate", *arguments))
    plan = services(folder, http_port=free_port(), workers=1, paged=False, extra=(simulate,))
    told = threading.Event()  # looked at in turn: an exception out of the handler may be lost in a library's callback
    set_on(told, signal.SIGTERM)
    supervisor = Supervisor(plan, os.environ, folder / "log" / "lockstep.log", clock)
    try:
        usual = "; about 2 minutes on 2 idle cores" if _usual(fleet) else ""
        racks = f"{fleet.racks} NVL72 rack{'s' if fleet.racks > 1 else ''}"
        _say(f"{racks}, one {fleet.job_size}-GPU job, up to {fleet.speed:g} times real time{usual}")

        def starting(name: str) -> None:
            _go_on(told)
            _say(f"starting {name}")

        supervisor.start(starting)
        from storage.client import get_client

        host, _, port = supervisor.addresses["database"].rpartition(":")
        client = get_client(ClickHouse(clickhouse_host=host, clickhouse_port=int(port)))
        until_s = fleet.onset_s + (ramp_s(fleet.fault)) + QUIET_S + 30.0
        progress = Progress(clock, sys.stderr.isatty(), lambda text: click.echo(text, nl=False, err=True))

        def tend() -> None:
            _go_on(told)
            supervisor.tend()
            supervisor.require_steady()

        verdict = watch(client, fleet, truth, until_s, clock, tend, progress)
        progress.end()
        click.echo(json.dumps(verdict.plain(), indent=2) if form == "json" else _text(verdict))
        if once:
            _say(f"to ask the database yourself: {program()} demo (without --once) keeps it running")
        else:
            ask = f'{program()} query --clickhouse-port {port} "SELECT id, state, cause, summary FROM v_incidents"'
            _say(f"still running: {ask}; Ctrl-C ends it")
            while True:
                _go_on(told)
                supervisor.tend()
                clock.sleep(1.0)
        return verdict
    finally:
        supervisor.stop()


def _go_on(told: threading.Event) -> None:
    """KeyboardInterrupt once the process was told to end, so that it ends as at Ctrl-C."""
    if told.is_set():
        raise KeyboardInterrupt


def _usual(fleet: FleetSettings) -> bool:
    return fleet == msgspec.structs.replace(FleetSettings(**DEFAULTS), start_ms=fleet.start_ms)


def ramp_s(fault: str) -> float:
    """Seconds of event time until the fault is fully there; 0 without one."""
    return next((known.ramp_s for name, known in FAULTS.items() if name == fault), 0.0)


def _given(fleet: FleetSettings) -> dict[str, Any]:
    plain = msgspec.structs.asdict(fleet)
    return {name: value for name, value in plain.items() if value not in (None, "")}


def _list_faults(form: str) -> None:
    if form == "json":
        listed = {name: {"scope": f.scope, "severity": f.severity, "meaning": f.meaning} for name, f in FAULTS.items()}
        click.echo(json.dumps(listed, indent=2))
        return
    rows = [("FAULT", "TARGET", "WHAT IT IS"), *((name, f.scope, CAUSES[name].words) for name, f in FAULTS.items())]
    name_width, scope_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, scope, words in rows:
        click.echo(f"{name:<{name_width}}  {scope:<{scope_width}}  {words}")
        if name in FAULTS and (fault := FAULTS[name]).meaning != UNUSED:
            click.echo(f"{'':<{name_width}}  {'':<{scope_width}}  --severity {fault.severity:g}: {fault.meaning}")


def _text(verdict: Verdict) -> str:
    truth = {k: v for k, v in verdict.plain()["truth"].items() if v not in (None, "") and k not in ("onset_ms", "type")}
    said = ", ".join(f"{name} {value}" for name, value in truth.items()) or "a healthy fleet"
    lines = [incident_text(incident) for incident in verdict.incidents] or ["No incident."]
    lines.append(f"put in     {said}")
    answer = "the verdict is right" if verdict.correct else "the verdict is NOT right"
    delay = f", {verdict.delay_s:g} s of simulated time after onset" if verdict.delay_s is not None else ""
    lines.append(f"answer     {answer}{delay}")
    lines.append(
        f"stored     {verdict.samples:,} GPU samples in ClickHouse, {verdict.event_s:.0f} simulated s "
        f"in {verdict.wall_s:.0f} s of the clock"
    )
    return "\n".join(lines)


def _say(line: str) -> None:
    click.echo(line, err=True)
