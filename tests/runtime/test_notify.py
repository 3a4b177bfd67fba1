"""Word to systemd."""

import socket
from pathlib import Path

import pytest

from runtime.notify import Manager


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_once_then_alive_and_the_status_where_it_changes(abstract: bool, tmp_path: Path) -> None:
    name = f"\0lockstep-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(name)
        systemd.settimeout(5)
        manager = Manager({"NOTIFY_SOCKET": name.replace("\0", "@")})
        for status in ("one", "one", "two"):
            manager.alive(status)
        assert manager.tell("STOPPING=1")
        said = [systemd.recv(4096).decode() for _ in range(4)]
    assert said == ["READY=1\nWATCHDOG=1\nSTATUS=one", "WATCHDOG=1", "WATCHDOG=1\nSTATUS=two", "STOPPING=1"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/none/such"}])
def test_nobody_to_tell_is_no_trouble(environment: dict[str, str]) -> None:
    manager = Manager(environment)
    manager.alive("fine")
    assert not manager.tell("STOPPING=1")


def test_a_manager_that_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "s"))
        manager = Manager({"NOTIFY_SOCKET": str(tmp_path / "s")})
        assert not all(manager.tell("WATCHDOG=1") for _ in range(2000))
