"""`lockstep analyze` on recorded topics: a small simulated fleet with real agents' cores on it, recorded in memory."""

from collections import defaultdict
from pathlib import Path

import pytest

from lockstep.analyze import analyze, events
from lockstep.analyze.recognise import recognise
from lockstep.fleet import Agents
from lockstep.replay.recording import frame
from runtime.health import Counters
from schemas.codec import encode
from simulator.fleet import SimulatedFleet, truth_of
from simulator.settings import FleetSettings

START_MS = 1_800_000_000_000
ONSET_S, SECONDS = 45, 70


def settings(fault: str = "") -> FleetSettings:
    return FleetSettings(racks=1, trays=4, job_size=16, seed=3, fault=fault, onset_s=float(ONSET_S), start_ms=START_MS)  # type: ignore[arg-type]


def record(folder: Path, fault: str = "", seconds: int = SECONDS) -> Path:
    """One file a topic, as `topics tail` would have written them."""
    written: dict[str, list[bytes]] = defaultdict(list)
    agents = Agents(SimulatedFleet(settings(fault), "sim", START_MS), "sim", 1, folder / "agents", Counters())
    for _ in range(seconds):
        for sent in agents.tick():
            written[sent.topic].append(frame(encode(sent)))
    topics = folder / "topics"
    topics.mkdir()
    for topic, frames in written.items():
        (topics / f"{topic}.records").write_bytes(b"".join(frames))
    return topics


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("healthy"))


def test_a_healthy_fleets_recording_has_no_incident(healthy: Path) -> None:
    report = analyze([healthy])
    assert report.healthy
    assert {i.kind for i in report.inputs} == {"frames"}
    assert all(i.records for i in report.inputs)


def test_a_recorded_fault_is_the_incident_that_a_worker_would_have_written(tmp_path: Path) -> None:
    truth = truth_of(settings("gpu_degraded"))
    (incident,) = analyze([record(tmp_path, "gpu_degraded")]).to_json()["incidents"]
    assert (incident["kind"], incident["cause"]) == ("straggler", "gpu_degraded")
    assert [(c["rank"], c["node"]) for c in incident["culprits"]] == [(truth.rank, truth.node)]
    assert incident["detected"]["ts"] < "2027-01-15T08:01:00"


def test_a_leak_is_told_from_rack_frames_alone(tmp_path: Path) -> None:
    topics = record(tmp_path, "leak")
    (incident,) = analyze([topics / "rack-frames.records"]).to_json()["incidents"]
    assert (incident["scope"], incident["cause"]) == ("node", "leak")


def test_a_recording_that_breaks_off_is_used_up_to_there_and_says_so(healthy: Path, tmp_path: Path) -> None:
    whole = (healthy / "node-frames.records").read_bytes()
    end, half = 0, len(whole) // 2
    while end < half:
        end += 4 + int.from_bytes(whole[end : end + 4], "little")
    torn = tmp_path / "torn.records"
    torn.write_bytes(whole[:end] + b"\xff" * 64)
    report = analyze([torn])
    (input_,) = report.inputs
    assert input_.skipped == 1
    assert input_.records > 50
    assert "read up to record" in input_.notes[0]


def test_recordings_are_known_by_their_content_and_listed(healthy: Path, tmp_path: Path) -> None:
    other = tmp_path / "anything.bin"
    other.write_bytes((healthy / "steps.records").read_bytes())
    assert recognise(other) == "frames"
    first = next(events([other]))
    assert first["event"] == "steps"
    assert first["node"].startswith("r01-")
