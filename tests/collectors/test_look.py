"""Looking at what an agent would send, without being one."""

import json
import os
import socket
import threading
from pathlib import Path

import msgspec
import pytest

from collectors.agent import service
from collectors.agent.look import look
from collectors.agent.service import Machine, serve
from collectors.agent.settings import AgentSettings
from collectors.base import Reading
from schemas.codec import decode
from schemas.event import Event
from schemas.frame import NodeFrame
from schemas.matrix import Matrix
from schemas.readable import readable
from schemas.record import NodeRecord

from fake_sender import FakeSender  # isort: skip

SUPPORT = Path(__file__).parents[1] / "support"


def machine(folder: Path) -> Machine:
    (folder / "proc/100").mkdir(parents=True)
    (folder / "proc/loadavg").write_text("4.00 3.00 2.00 6/900 12345\n")
    (folder / "proc/100/stat").write_text("100 (python) S " + "1 " * 18 + "100 0 0\n")
    (folder / "proc/100/environ").write_bytes(b"SLURM_JOB_ID=71\0RANK=3\0")
    (folder / "kmsg").write_bytes(b"")
    return Machine(proc=folder / "proc", kmsg=folder / "kmsg", driver="sampler_factories:fake_driver")


def settings(folder: Path, **more: object) -> AgentSettings:
    return msgspec.convert(
        {"node": "n", "cluster": "c", "interval_s": 1.0, "spool_dir": str(folder / "spool"), **more}, AgentSettings
    )


def environment() -> dict[str, str]:
    return dict(os.environ) | {"PYTHONPATH": str(SUPPORT), "FAKE_PIDS": json.dumps([100])}


def test_one_look_shows_one_frame_with_what_all_collectors_say(tmp_path: Path) -> None:
    shown: list[NodeRecord] = []
    told = settings(tmp_path, steps_socket=str(tmp_path / "steps.sock"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(told.steps_socket)  # a running agent's: neither taken nor removed
        look(told, threading.Event(), machine(tmp_path), environment(), shown.append, once=True)
    (frame,) = [record for record in shown if isinstance(record, NodeFrame)]
    assert {"gpu", "host"} <= frame.sections.keys()
    assert [(gpu.job, gpu.rank) for gpu in frame.gpus if gpu.job] == [("slurm:c/71/0", 3)]
    assert not [record for record in shown if isinstance(record, Event) and record.kind == "agent_started"]
    assert not (tmp_path / "spool").exists()
    assert Path(told.steps_socket).exists()


class Rare:
    """Read every ten seconds, as a part of a section that another collector fills every tick."""

    name, interval_s = "rare", 10.0

    def collect(self, tick_ms: int) -> Reading:
        return Reading({"host": Matrix.of(["n"], ["node_power_w"], [[700.0]])})


def test_one_look_shows_what_is_seldom_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[NodeRecord] = []
    own = service.chosen
    monkeypatch.setattr(service, "chosen", lambda node: [*own(node), Rare()])
    told = settings(tmp_path, interval_s=0.1, collectors="host")
    look(told, threading.Event(), machine(tmp_path), environment(), shown.append, once=True)
    (frame,) = [record for record in shown if isinstance(record, NodeFrame)]
    row = readable(frame.sections["host"])["n"]
    assert (row["node_power_w"], row["load_1m"]) == (700, 4)


def test_without_once_every_tick_is_shown_until_stopped(tmp_path: Path) -> None:
    shown: list[NodeRecord] = []
    stop = threading.Event()

    def show(record: NodeRecord) -> None:
        shown.append(record)
        if sum(isinstance(one, NodeFrame) for one in shown) == 3:
            stop.set()

    told = settings(tmp_path, interval_s=0.1, collectors="host")
    look(told, stop, machine(tmp_path), environment(), show, once=False)
    assert sum(isinstance(record, NodeFrame) for record in shown) == 3


def test_an_agent_that_runs_once_sends_and_ends_and_tells_systemd(tmp_path: Path) -> None:
    sender = FakeSender()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        told = environment() | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        agent = settings(tmp_path, interval_s=0.1, collectors="host")
        serve(agent, threading.Event(), machine(tmp_path), told, lambda *_: sender, once=True)
        said = systemd.recv(4096).decode()
    assert said.startswith("READY=1\nWATCHDOG=1\nSTATUS=")
    frames = [record for topic, _, value in sender.received if isinstance(record := decode(value, topic), NodeFrame)]
    assert len(frames) >= 3
    assert sender.closed
