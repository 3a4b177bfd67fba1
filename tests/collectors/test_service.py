"""The whole agent on a machine made of files, with a real sampler process over fake GPUs."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from fake_bmc import PASSWORD, FakeBmc
from fake_clock import FakeClock
from fake_sender import FakeSender

from collectors import COLLECTORS
from collectors.agent.core import Identity
from collectors.agent.node import Node
from collectors.agent.service import AgentSettings, Machine, chosen, hold, serve
from collectors.gpu.nvml import driver_version
from runtime.errors import UserError
from runtime.health import Counters
from runtime.settings import from_environment
from schemas.codec import decode
from schemas.event import Event
from schemas.frame import NodeFrame, RackFrame
from schemas.health import Health
from schemas.inventory import Inventory
from schemas.matrix import Matrix
from schemas.record import NodeRecord, Record
from schemas.step import StepFrame
from simulator.controllers import tray_tree

SUPPORT = Path(__file__).parents[1] / "support"
R = TypeVar("R", bound=Record)


class Agent:
    """A machine under `folder`, and an agent on it that runs in a thread."""

    def __init__(self, folder: Path, sender: FakeSender, **more: object) -> None:
        self.folder, self.sender = folder, sender
        proc = folder / "proc"
        if not proc.exists():
            (proc / "sys/kernel/random").mkdir(parents=True)
            (proc / "sys/kernel/random/boot_id").write_text("boot-1\n")
            (proc / "loadavg").write_text("4.00 3.00 2.00 6/900 12345\n")
            for pid in range(100, 108):
                (proc / str(pid)).mkdir()
                (proc / str(pid) / "stat").write_text(f"{pid} (python) S " + "1 " * 18 + "100 0 0\n")
                (proc / str(pid) / "environ").write_bytes(f"SLURM_JOB_ID=71\0RANK={pid - 44}\0".encode())
            (folder / "kmsg").write_bytes(b"")
            (folder / "steps").mkdir()
        self.settings = AgentSettings(
            cluster="eos",
            node="node-7",
            spool_dir=str(folder / "spool"),
            steps_dir=str(folder / "steps"),
            **more,  # type: ignore[arg-type]
        )
        self.machine = Machine(proc=proc, kmsg=folder / "kmsg", driver="sampler_factories:fake_driver")
        pids = json.dumps(list(range(100, 108)))
        self.environment = dict(os.environ) | {"PYTHONPATH": str(SUPPORT), "FAKE_PIDS": pids}
        self.stop = threading.Event()
        self.failed: list[BaseException] = []
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Agent":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()
        assert not self.failed

    def _run(self) -> None:
        try:
            serve(self.settings, self.stop, self.machine, self.environment, lambda client, counters: self.sender)
        except BaseException as error:
            self.failed.append(error)

    def records(self, cls: type[R]) -> list[R]:
        decoded = [decode(value, topic) for topic, _, value in list(self.sender.received)]
        return [record for record in decoded if isinstance(record, cls)]

    def until(self, what: Callable[[], object], within_s: float = 60.0) -> None:
        until = time.monotonic() + within_s
        while not what():
            assert time.monotonic() < until, [type(record).__name__ for record in self.records(Record)]
            assert not self.failed, self.failed
            time.sleep(0.02)


def test_a_node_sends_all_that_it_has(tmp_path: Path) -> None:
    with Agent(tmp_path, FakeSender(), interval_s=0.25) as agent:
        agent.until(lambda: any(frame.gpus and frame.gpus[0].job for frame in agent.records(NodeFrame)))
        (tmp_path / "kmsg").write_text("4,7,1000,-;NVRM: Xid (PCI:0003:1b:00): 48, pid=103, name=python, DBE\n")
        (tmp_path / "steps" / "pid103.jsonl").write_text('{"step": 5, "rank": 59, "step_us": 960000.0}\n')
        agent.until(lambda: agent.records(StepFrame))
        agent.until(lambda: any(event.kind == "xid" for event in agent.records(Event)))
        agent.until(lambda: agent.records(Health))
    frame = next(frame for frame in agent.records(NodeFrame) if frame.gpus and frame.gpus[0].job)
    assert [(gpu.job, gpu.rank) for gpu in frame.gpus] == [("slurm:eos/71/0", 56 + i) for i in range(8)]
    both = next(frame for frame in agent.records(NodeFrame) if {"gpu", "host"} <= frame.sections.keys())
    assert both.ts_ms % 250 == 0
    (xid,) = [event for event in agent.records(Event) if event.kind == "xid"]
    assert (xid.gpu, xid.job, xid.rank, xid.boot_id) == ("GPU-3", "slurm:eos/71/0", 59, "boot-1")
    assert agent.records(StepFrame)[0].job == "slurm:eos/71/0"
    assert [event.kind for event in agent.records(Event)].count("agent_started") == 1
    assert len(agent.records(Inventory)[-1].memberships) == 8
    stamps = [record.seq for record in agent.records(NodeRecord)]
    assert len(set(stamps)) == len(stamps)
    health = agent.records(Health)
    assert health[-1].note == "stopped"
    assert len(health) >= 2
    assert health[-1].gauges["collector_gpu_success"] == 1.0
    assert agent.sender.closed


def test_an_agent_with_the_rack_role_polls_its_list_and_leaves_no_session_behind(tmp_path: Path) -> None:
    tree = tray_tree(Matrix.of(["t1/Manifold"], ["leak_detected"], [[1.0]]), "t1")
    with FakeBmc(tree) as bmc:
        (tmp_path / "password").write_text(PASSWORD + "\n")
        (tmp_path / "bmc.toml").write_text(
            f'user = "monitor"\npassword_file = "{tmp_path}/password"\ninsecure = true\n'
            f'[[bmc]]\nname = "t1-bmc"\nurl = "{bmc.url}"\nnode = "t1"\n'
        )
        more = {"interval_s": 0.25, "rack": "r7", "bmc_targets": str(tmp_path / "bmc.toml"), "bmc_interval_s": 1.0}
        with Agent(tmp_path, FakeSender(), **more) as agent:
            agent.until(lambda: any("leak" in frame.sections for frame in agent.records(RackFrame)))
            assert len(bmc.sessions) == 1
        assert bmc.sessions == []
    frame = next(frame for frame in agent.records(RackFrame) if "leak" in frame.sections)
    assert (frame.rack, frame.node) == ("r7", "node-7")
    assert frame.sections["leak"].column("leak_detected").tolist() == [1.0]


def test_a_broker_that_is_down_while_the_agent_dies_costs_nothing(tmp_path: Path) -> None:
    sender = FakeSender()
    sender.down = True
    with Agent(tmp_path, sender, interval_s=0.25, collectors="host") as first:
        first.until(lambda: len(sender.waiting) >= 3)
    assert first.records(NodeFrame) == []
    with Agent(tmp_path, FakeSender(), interval_s=0.25, collectors="host") as second:
        second.until(lambda: len({frame.run_id for frame in second.records(NodeFrame)}) == 2)
    runs = sorted({frame.run_id for frame in second.records(NodeFrame)})
    assert runs[1] > runs[0]
    seqs = [record.seq for record in second.records(NodeRecord) if record.run_id == runs[0]]
    assert seqs == list(range(1, max(seqs) + 1))


def test_a_machine_without_a_driver_sends_the_rest(tmp_path: Path) -> None:
    agent = Agent(tmp_path, FakeSender(), interval_s=0.25)
    agent.machine = Machine(proc=agent.machine.proc, kmsg=agent.machine.kmsg)
    if driver_version() is not None:
        pytest.skip("this machine has an NVIDIA driver")
    with agent:
        agent.until(lambda: len([frame for frame in agent.records(NodeFrame) if "host" in frame.sections]) > 3)
    assert not [event.kind for event in agent.records(Event) if event.kind != "agent_started"]
    assert {frame.gpus for frame in agent.records(NodeFrame)} == {()}


def test_two_agents_do_not_share_a_spool(tmp_path: Path) -> None:
    with hold(tmp_path / "spool"), pytest.raises(UserError, match=r"another agent uses the spool folder .*--spool-dir"):
        hold(tmp_path / "spool")


def test_a_spool_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"spool folder .*file/spool: Not a directory; choose another by --spool-dir"):
        hold(tmp_path / "file" / "spool")


def node(tmp_path: Path, **more: str) -> Node:
    settings = AgentSettings(spool_dir=str(tmp_path), **more)  # type: ignore[arg-type]
    identity = Identity(cluster="c", node="n")
    return Node(identity, settings, Machine(), FakeClock(), Counters(), {})


def test_every_registered_collector_can_be_made_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "bmc.toml").write_text('rack = "r1"\n[[bmc]]\nname = "cdu"\nurl = "https://10.0.0.1"\n')
    everything = node(
        tmp_path,
        inspector_dir=str(tmp_path),
        steps_dir=str(tmp_path),
        bmc_targets=str(tmp_path / "bmc.toml"),
        bms_dir=str(tmp_path),
    )
    names = [collector.name for collector in chosen(everything)]
    assert names == [name for name in COLLECTORS if name in names], "in the registry's order, under its names"
    assert {"gpu", "jobs", "host", "kernel", "nccl", "steps"} <= set(names)
    assert not {"nccl", "steps"} & {collector.name for collector in chosen(node(tmp_path))}
    assert [collector.name for collector in chosen(node(tmp_path, collectors=" kernel,host "))] == ["host", "kernel"]


def test_an_unknown_collector_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no collector 'gpus' in --collectors; there are gpu, jobs, host"):
        chosen(node(tmp_path, collectors="gpus"))


def test_settings_come_from_the_environment() -> None:
    settings = from_environment(
        AgentSettings,
        {"LOCKSTEP_NODE": "n7", "LOCKSTEP_TRAY": "4", "LOCKSTEP_SPOOL_MIB": "64", "LOCKSTEP_BROKER": "k1:9092"},
        rack="r1",
    )
    assert (settings.node, settings.tray, settings.spool_mib, settings.rack) == ("n7", 4, 64.0, "r1")
    with pytest.raises(UserError, match="LOCKSTEP_TRAY"):
        from_environment(AgentSettings, {"LOCKSTEP_TRAY": "upper"})
    with pytest.raises(UserError, match="LOCKSTEP_INTERVAL_S"):
        from_environment(AgentSettings, {"LOCKSTEP_INTERVAL_S": "0"})


def test_rubbish_in_the_spools_small_files_stops_nothing(tmp_path: Path) -> None:
    with Agent(tmp_path, FakeSender(), interval_s=0.25, collectors="host") as first:
        first.until(lambda: len(first.records(NodeFrame)) >= 5)
    (tmp_path / "spool" / "run_id").write_bytes(b"\xff\xff")
    (tmp_path / "spool" / "position").write_bytes(b"\x00")
    with Agent(tmp_path, FakeSender(), interval_s=0.25, collectors="host") as second:
        second.until(lambda: len(second.records(NodeFrame)) >= 2)
    assert max(frame.run_id for frame in second.records(NodeFrame)) > first.records(NodeFrame)[0].run_id
