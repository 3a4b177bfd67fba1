"""Settings that cannot work say so at the start: once, and once more when they can."""

import logging
from pathlib import Path

import pytest
from fake_clock import FakeClock

from collectors.agent.core import AgentCore, Identity
from collectors.agent.folders import Folders, wrong
from collectors.agent.settings import AgentSettings
from collectors.base import CollectorError, Reading
from runtime.errors import UserError
from runtime.health import Counters
from runtime.settings import from_environment
from schemas.event import Event


def test_a_folder_that_is_not_there_is_said_once_and_once_more_when_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="collectors")
    there, later, file = tmp_path / "there", tmp_path / "later", tmp_path / "file"
    there.mkdir()
    file.write_bytes(b"")
    settings = AgentSettings(inspector_dir=str(later), steps_dir=str(there), bms_dir=str(file))
    folders = Folders(settings)
    for _ in range(3):
        folders.look()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            f"--inspector-dir {later} is not there: nothing is read from it until it can be (lockstep doctor)",
        ),
        ("WARNING", f"--bms-dir {file} is no folder: nothing is read from it until it can be (lockstep doctor)"),
    ]
    caplog.clear()
    later.mkdir()
    for _ in range(3):
        folders.look()
    assert [record.getMessage() for record in caplog.records] == [f"--inspector-dir {later} can be read now"]


def test_a_folder_that_may_not_be_read_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong(str(tmp_path)) == ""
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may read all
    assert wrong(str(tmp_path)) == "cannot be read"


@pytest.mark.parametrize(
    "url",
    [
        "localhost:9400",
        "ftp://a/metrics",
        "http://",
        "http:///metrics",
        "http://user:secret@host/",
        "http://h:x/",
        "http://a b/",
    ],
)
def test_what_is_no_address_of_an_exporter_is_one_line_at_the_start(url: str) -> None:
    with pytest.raises(UserError, match=r"^LOCKSTEP_DCGM_URL=.*: give http://HOST:PORT/PATH, or https$"):
        from_environment(AgentSettings, {"LOCKSTEP_DCGM_URL": url})


@pytest.mark.parametrize(
    "url", ["", "http://localhost:9400/metrics", "https://n1/m?x=1", "http://[::1]:9400", "http://10.0.0.7"]
)
def test_an_address_is_taken(url: str) -> None:
    assert from_environment(AgentSettings, {"LOCKSTEP_DCGM_URL": url}).dcgm_url == url


class Exporter:
    """A collector whose exporter is not there for its first `without` turns."""

    name, interval_s = "gpu", 1.0

    def __init__(self, without: int) -> None:
        self.without = without

    def collect(self, tick_ms: int) -> Reading:
        self.without -= 1
        if self.without >= 0:
            raise CollectorError("unreachable", "dcgm-exporter at http://localhost:9400/: Connection refused")
        return Reading()


def test_an_exporter_that_cannot_be_reached_is_said_once_and_again_after_ten_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="collectors")
    clock = FakeClock(1_796_000_000_000)
    core = AgentCore(Identity(cluster="c", node="n"), [Exporter(700)], 1, clock, Counters())
    events = []
    for _ in range(702):
        clock.advance(1.0)
        events += [record for record in core.tick(clock.now_ms()) if isinstance(record, Event)]
    said = "collector=gpu: unreachable: dcgm-exporter at http://localhost:9400/: Connection refused"
    assert [record.getMessage() for record in caplog.records] == [
        said,
        f"{said} (599 more like this)",
        "collector=gpu reads again",
    ]
    assert [event.kind for event in events] == ["agent_started", "collector_failed", "collector_recovered"]
