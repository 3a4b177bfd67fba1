"""`lockstep doctor`: what is here, what is missing, what is set up and does not work."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from collectors.agent.settings import AgentSettings
from lockstep import extras
from lockstep.cli import group
from lockstep.doctor import PROBES, Check, Machine, Probe, alerts, examine, files, node, packages, reach
from runtime.settings import ClickHouse

from fake_clock import FakeClock  # isort: skip


EXPORTED = b"".join(
    b'DCGM_FI_%s{UUID="GPU-a"} 1\n' % field
    for field in (
        b"DEV_ENFORCED_POWER_LIMIT", b"DEV_CLOCKS_EVENT_REASONS", b"DEV_ECC_DBE_VOL_TOTAL", b"DEV_ROW_REMAP_PENDING",
        b"PROF_SM_ACTIVE",
    )
)  # fmt: skip


def machine(root: Path, *given: str, environment: dict[str, str] | None = None, **agent: object) -> Machine:
    return Machine(
        agent=msgspec.convert(agent, AgentSettings),
        database=ClickHouse(clickhouse_port=1),
        given=frozenset(given) | frozenset(agent),
        environment=environment or {},
        root=root,
        clock=FakeClock(),
    )


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def only(checks: list[Check]) -> Check:
    (check,) = checks
    return check


def test_nothing_set_up_is_no_fault() -> None:
    done = CliRunner().invoke(group, ["doctor", "--format", "json"], env={"LOCKSTEP_BROKER": None})
    checks = json.loads(done.output)
    assert {check["section"] for check in checks} == {"software", "node", "files", "reach"}
    assert all(check["seen"] for check in checks)
    assert [check for check in checks if check["state"] == "broken"] == []
    assert done.exit_code == 0, done.output


def test_what_is_set_up_and_does_not_work_is_exit_status_1(tmp_path: Path) -> None:
    arguments = ["doctor", "--broker", "127.0.0.1:1", "--inspector-dir", f"{tmp_path}/none", "--clickhouse-port", "1"]
    done = CliRunner().invoke(group, arguments)
    assert done.exit_code == 1
    broken = [line.split()[1] for line in done.output.splitlines() if line.strip().startswith("XX")]
    assert broken == ["nccl", "broker", "database"]


def test_a_probe_that_hangs_and_one_that_breaks_do_not_hide_the_others(tmp_path: Path) -> None:
    forever = threading.Event()

    def hangs(_: Machine) -> list[Check]:
        forever.wait(60)
        return []

    def breaks(_: Machine) -> list[Check]:
        raise RuntimeError("boom")

    probes: dict[str, Probe] = {"node/a": hangs, "node/b": breaks, "node/c": lambda _: [Check("", "ok", "fine")]}
    try:
        found = examine(machine(tmp_path), probes, patience_s=0.2)
    finally:
        forever.set()
    assert [(c.section, c.name, c.state) for c in found] == [
        ("node", "a", "broken"),
        ("node", "b", "broken"),
        ("node", "c", "ok"),
    ]
    assert "no answer within 0.2 s" in found[0].seen
    assert "RuntimeError: boom" in found[1].seen


def test_every_probe_has_a_section_and_a_name() -> None:
    assert all(name.count("/") == 1 for name in PROBES)


def gpu_on_bus(root: Path, vendor: str = "0x10de", kind: str = "0x030200") -> None:
    put(root / "sys/bus/pci/devices/0000:17:00.0/vendor", vendor + "\n")
    put(root / "sys/bus/pci/devices/0000:17:00.0/class", kind + "\n")


def test_gpu_none_or_without_driver_or_without_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "driver_version", lambda: None)
    assert only(node.gpu(machine(tmp_path))).state == "absent"
    gpu_on_bus(tmp_path, kind="0x020000")  # a network controller of the same vendor
    assert only(node.gpu(machine(tmp_path))).state == "absent"
    gpu_on_bus(tmp_path)
    assert only(node.gpu(machine(tmp_path))).seen == "1 NVIDIA GPUs on the PCI bus, no driver"
    put(tmp_path / "proc/driver/nvidia/version", "NVRM version: ...")
    check = only(node.gpu(machine(tmp_path)))
    assert (check.state, "NVIDIA_DRIVER_CAPABILITIES" in check.remedy) == ("broken", True)
    monkeypatch.setattr(node, "driver_version", lambda: "580.95.05")
    assert only(node.gpu(machine(tmp_path))) == Check("", "ok", "NVIDIA driver 580.95.05, 1 GPUs on the PCI bus")


def test_kernel_log_and_other_processes(tmp_path: Path) -> None:
    assert only(node.kernel_log(machine(tmp_path))).state == "absent"
    put(tmp_path / "dev/kmsg", "")
    assert only(node.kernel_log(machine(tmp_path))).state == "ok"
    put(tmp_path / "proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n")
    assert only(node.processes(machine(tmp_path))).state == "absent"
    put(tmp_path / "proc/self/status", f"Name:\tx\nCapEff:\t{1 << 19:016x}\n")
    assert only(node.processes(machine(tmp_path))).state == "ok"


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ("LoadState=not-found ActiveState=inactive", "absent"),
        ("LoadState=loaded ActiveState=failed SubState=failed NRestarts=5", "broken"),
        ("LoadState=loaded ActiveState=active SubState=running", "ok"),
        ("LoadState=loaded ActiveState=inactive SubState=dead", "attention"),
    ],
)
def test_the_agents_unit(told: str, state: str) -> None:
    assert node._unit(dict(pair.split("=") for pair in told.split())).state == state


def test_processes_that_write_where_nobody_looks(tmp_path: Path) -> None:
    put(tmp_path / "proc/70/environ", b"A=1\0NCCL_INSPECTOR_DUMP_DIR=/tmp/nccl/\0")
    put(tmp_path / "proc/71/environ", b"NCCL_INSPECTOR_DUMP_DIR=/tmp/nccl\0")
    (tmp_path / "proc/72").mkdir()
    check = only(files.inspector(machine(tmp_path)))
    assert check.state == "attention"
    assert check.seen == "2 processes write to /tmp/nccl, where this agent does not look"
    assert check.remedy == "lockstep agent --inspector-dir /tmp/nccl"


def test_the_inspector_folder_and_its_growth(tmp_path: Path) -> None:
    folder = tmp_path / "nccl"
    folder.mkdir()
    told = machine(tmp_path, inspector_dir=str(folder))
    assert only(files.inspector(told)).seen == f"{folder} has no file named *.log"
    log = put(folder / "h-pid1.log", b"x" * 1024)
    assert only(files.inspector(told)).state == "ok"

    class Growing(FakeClock):
        def sleep(self, seconds: float) -> None:
            os.truncate(log, 1 << 40)  # sparse: a terabyte in a second fills any disk within a day

    check = only(files.inspector(msgspec.structs.replace(told, clock=Growing())))
    assert check.state == "attention"
    assert "full in " in check.seen


def test_the_spool_has_room_and_may_be_written(tmp_path: Path) -> None:
    assert only(files.spool(machine(tmp_path, spool_dir=f"{tmp_path}/new/spool"))).state == "ok"
    check = only(files.spool(machine(tmp_path, spool_dir=f"{tmp_path}/new", spool_mib=1e12)))
    assert check.state == "attention"
    assert only(files.spool(machine(tmp_path, spool_dir="/proc/1/none"))).state == "broken"


def test_steps_alerts_and_ports(tmp_path: Path) -> None:
    assert only(files.steps(machine(tmp_path))).state == "absent"
    assert only(files.steps(machine(tmp_path, steps_dir=f"{tmp_path}/none"))).state == "broken"
    assert only(files.steps(machine(tmp_path, steps_dir=str(tmp_path)))).state == "ok"
    assert only(alerts.receivers(machine(tmp_path))).state == "absent"
    short = {"LOCKSTEP_PAGERDUTY_ROUTING_KEY": "hunter2"}
    check = only(alerts.receivers(machine(tmp_path, environment=short)))
    assert (check.state, "hunter2" in check.seen) == ("broken", False)
    assert only(reach.ports(machine(tmp_path))).state == "absent"


def test_what_other_settings_name(tmp_path: Path) -> None:
    check = only(files.named(machine(tmp_path)))
    assert check == Check(
        "", "absent", "not set up: flight recorder, job logs, Slurm's mapping, rack's controllers, building's values"
    )
    told = machine(
        tmp_path, flight_dir=str(tmp_path), job_mapping_dir="/none/such", bmc_targets=__file__, bms_dir=str(tmp_path)
    )
    assert [(c.name, c.state) for c in files.named(told)] == [
        ("flight recorder", "ok"),
        ("Slurm's mapping", "broken"),
        ("rack's controllers", "ok"),
        ("building's values", "ok"),
        ("", "absent"),
    ]
    file = only(files.named(machine(tmp_path, job_log_dir=__file__))[:1])
    assert (file.name, file.state, file.seen) == ("job logs", "broken", f"{__file__} is no folder")


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (EXPORTED, "ok"),
        (b'DCGM_FI_DEV_POWER_USAGE{gpu="0"} 1\n', "attention"),
        (b"<html>", "broken"),
        (None, "broken"),
    ],
)
def test_the_exporter_that_gpus_are_read_from(body: bytes | None, state: str, tmp_path: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if body else 503)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    assert only(reach.dcgm(machine(tmp_path))).state == "absent"
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        check = only(reach.dcgm(machine(tmp_path, dcgm_url=f"http://127.0.0.1:{server.server_port}/metrics")))
        server.shutdown()
    assert check.state == state
    if state == "attention":
        assert check.seen.endswith("for 1 GPUs, without " + ", ".join(reach.WANTED))


def test_where_gpus_are_read_from_an_exporter_no_driver_is_missed(tmp_path: Path) -> None:
    assert only(node.gpu(machine(tmp_path, dcgm_url="http://127.0.0.1:1/metrics"))).state == "ok"


def test_doctor_takes_the_exporter_s_address() -> None:
    done = CliRunner().invoke(group, ["doctor", "--dcgm-url", "http://127.0.0.1:1/metrics", "--format", "json"])
    (check,) = [check for check in json.loads(done.output) if check["name"] == "dcgm-exporter"]
    assert check["state"] == "broken"
    assert done.exit_code == 1


def test_a_database_is_absent_unless_it_was_named(tmp_path: Path) -> None:
    assert only(reach.database(machine(tmp_path))).state == "absent"
    assert only(reach.database(machine(tmp_path, "clickhouse_port"))).state == "broken"


def test_missing_packages_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "EXTRAS", {"no_such_module": "worker", "json": "files"})
    worker, rest = packages.extras(machine(tmp_path))
    assert (worker.state, worker.seen) == ("absent", "without no_such_module")
    assert "pip install 'gpu-lockstep[worker]'" in worker.remedy
    assert rest.state == "ok"
