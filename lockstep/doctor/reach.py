"""What is reached over the network, and the ports of this machine."""

import importlib
import importlib.util

from collectors.base import CollectorError
from collectors.gpu.dcgm_fields import GPU_FIELDS
from collectors.http_text import fetcher
from collectors.prometheus_text import parse
from lockstep.doctor.check import Check, Machine
from runtime.errors import UserError
from runtime.kafka import wait_for_broker
from runtime.ports import require_free
from runtime.settings import Connection

ATTEMPT_S = 1.0

WANTED = ("power_limit_w", "clocks_event_reasons", "ecc_dbe_count", "remap_pending", "sm_active_ratio")
"""What detection lives on and the exporter's own list of counters leaves out."""

CLIENTS = {"clickhouse_connect": "storage.client", "urllib3": "alerts.service"}


def prepare() -> None:
    """Import what the probes of this module need, which may take longer than a probe has."""
    for library, module in CLIENTS.items():
        if importlib.util.find_spec(library) is not None:
            importlib.import_module(module)


def broker(machine: Machine) -> list[Check]:
    """A broker that answers; where none was named, whether one happens to be here."""
    agent = machine.agent
    plain = Connection(**{name: getattr(agent, name) for name in Connection.__struct_fields__})
    try:
        wait_for_broker(plain, ATTEMPT_S, lambda _: None)
    except UserError as error:
        if "broker" in machine.given:
            return [Check("", "broken", str(error))]
        return [
            Check("", "absent", f"none named, none at {agent.broker}", "`lockstep up` starts one; or give --broker")
        ]
    return [
        Check("", "ok", f"{agent.broker} answers" + ("" if "broker" in machine.given else " (the default address)"))
    ]


def dcgm(machine: Machine) -> list[Check]:
    """The exporter that GPUs are read from in place of the driver."""
    url = machine.agent.dcgm_url
    if not url:
        return [Check("", "absent", "not set up: GPUs are read through the driver")]
    try:
        text = fetcher(url, "dcgm-exporter", ATTEMPT_S)()
    except CollectorError as error:
        return [Check("", "broken", error.text, "start it, or set --dcgm-url")]
    samples = [sample for sample in parse(text).samples if sample.name in GPU_FIELDS]
    gpus = {sample.labels.get("UUID", sample.labels.get("gpu", "")) for sample in samples}
    if not samples:
        return [Check("", "broken", f"{url} answers, but with nothing of DCGM's", "set --dcgm-url to its /metrics")]
    said = f"{url} answers for {len(gpus)} GPUs"
    columns = {GPU_FIELDS[sample.name].column for sample in samples}
    if lacking := [name for name in WANTED if name not in columns]:
        return [
            Check("", "attention", f"{said}, without {', '.join(lacking)}", "docs/collectors/gpu.md says what to add")
        ]
    return [Check("", "ok", said)]


def database(machine: Machine) -> list[Check]:
    """A ClickHouse that lets us in and has our database."""
    chosen = machine.database
    where = f"{chosen.clickhouse_host}:{chosen.clickhouse_port}"
    if importlib.util.find_spec("clickhouse_connect") is None:
        return [
            Check("", "absent", "not tried", "pip install 'gpu-lockstep[storage]', where this machine asks ClickHouse")
        ]
    from storage.client import StorageUnreachable, get_client

    named = any(name.startswith("clickhouse_") for name in machine.given)
    try:
        client = get_client(chosen, timeout_s=2)
    except StorageUnreachable as error:
        if named:
            return [Check("", "broken", str(error))]
        return [Check("", "absent", f"none named, none at {where}", "`lockstep up` starts one; or --clickhouse-host")]
    except UserError as error:
        return [Check("", "broken" if named else "attention", str(error))]
    said = f"ClickHouse {client.server_version} at {where}"
    client.close()
    return [Check("", "ok", said)]


def ports(machine: Machine) -> list[Check]:
    """The ports that processes here would listen on."""
    port = machine.agent.prometheus_port
    if not port:
        return [Check("", "absent", "no Prometheus endpoint is asked for", "--prometheus-port N")]
    try:
        require_free(port, "a Prometheus endpoint", "--prometheus-port")
    except UserError as error:
        return [Check("", "attention", str(error), "fine where our own process has it")]
    return [Check("", "ok", f"port {port} is free for the Prometheus endpoint")]
