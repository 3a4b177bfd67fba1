"""Workers that are killed, stopped and joined by others: nothing forgotten, nothing said twice, nothing lost."""

import signal
import time
from collections import Counter
from random import Random

import msgspec
import pytest
from stand_in import StandInNode
from stream_stage import Stage, frame

from schemas import Features, Finding, Incident, NodeFrame
from streams.lane import Key

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def told(stage: Stage, frames: list[NodeFrame]) -> set[tuple[str, int, str]]:
    """What a worker that never dies says of these frames."""
    detectors: dict[str, StandInNode] = {}
    said: set[tuple[str, int, str]] = set()
    for one in frames:
        detector = detectors.setdefault(one.node, StandInNode(Key(stage.cluster, one.node)))
        said |= {(f.id, f.revision, f.state) for f in detector.update(one).findings}
    return said


def test_kill_forgets_no_open_finding_and_opens_no_second(kafka_stage: Stage) -> None:
    stage, random = kafka_stage, Random(7)
    frames = [
        frame(stage, f"n{n}", tick, bad=(tick // (3 + n)) % 2 == 1 and n % 3 == 0)
        for tick in range(120)
        for n in range(12)
    ]
    process = stage.process()
    for part in range(3):
        for start in range(part * len(frames) // 3, (part + 1) * len(frames) // 3, 36):
            stage.feed(*frames[start : start + 36])
            time.sleep(0.02)
        if part < 2:
            stage.until(Features, lambda seen, part=part: len(seen) > (part + 0.4) * len(frames) / 3)  # type: ignore[misc]
            time.sleep(random.uniform(0, 0.15))
            process.kill()
            process.wait()
            process = stage.process()
    expected = told(stage, frames)
    stage.until(Features, lambda seen: len({record.identity for record in seen}) == len(frames))
    stage.until(Finding, lambda seen: {(f.id, f.revision, f.state) for f in seen} >= expected)
    stage.reached_the_end("node-frames", "findings")
    findings = stage.seen(Finding)
    assert {(f.id, f.revision, f.state) for f in findings} == expected, "no other finding, no other revision"
    ids = {f.id for f in findings}
    assert len(ids) > 20
    closed = {f.id for f in findings if f.state == "close"}
    lives = {(one, 0, "open") for one in ids} | {(one, 1, "resolve") for one in closed}
    incidents = stage.until(Incident, lambda seen: len({i.identity for i in seen}) >= len(lives))
    assert {(i.findings[0], i.revision, i.change) for i in incidents} == lives


def test_state_is_restored_before_events(kafka_stage: Stage) -> None:
    """A killed worker loses at most a checkpoint of learning."""
    stage = kafka_stage
    process = stage.process()
    stage.feed(*(frame(stage, "n1", tick) for tick in range(40)))
    stage.until(Features, lambda seen: len(seen) == 40)
    stage.reached_the_end("node-frames")
    process.kill()
    process.wait()
    stage.worker()
    stage.feed(frame(stage, "n1", 40))
    features = stage.until(Features, lambda seen: any(record.seq == 40 for record in seen))
    (score,) = {record.gpus[0].score for record in features if record.seq == 40}
    assert 41 - 3 - 1 <= score <= 41, "a checkpoint every three seconds of event time"


def test_sigterm_stops_within_seconds_and_commits(kafka_stage: Stage) -> None:
    stage = kafka_stage
    before = stage.committed()["node-frames"]
    stage.settings = msgspec.structs.replace(stage.settings, checkpoint_s=60.0)
    process = stage.process()
    stage.feed(*(frame(stage, "n1", tick) for tick in range(300)))
    stage.until(Features, lambda seen: len(seen) >= 20)
    process.send_signal(signal.SIGTERM)
    assert process.wait(12) == 0, "well before whoever keeps it running would kill it"
    committed = stage.committed()["node-frames"] - before
    done = {record.seq for record in stage.until(Features, lambda seen: len(seen) >= committed)}
    stage.worker()
    features = stage.until(Features, lambda seen: len({record.seq for record in seen}) == 300)
    again = Counter(record.seq for record in features)
    assert all(again[seq] == 1 for seq in done), "what was sent before the stop was committed with it"


def test_replayed_events_give_the_same_features_identity(kafka_stage: Stage) -> None:
    """A kill after outputs, before the commit: rows whose state was not written yet come again, not others."""
    stage, rows = kafka_stage, 3 * 400
    stage.settings = msgspec.structs.replace(stage.settings, commit_interval_s=60.0)
    process = stage.process()
    stage.feed(*(frame(stage, f"n{n}", tick) for tick in range(400) for n in range(3)))
    # Outputs go out ahead of the states behind them. At the last one all states may be there, and nothing comes again.
    stage.until(Features, lambda seen: len(seen) >= 60)
    process.kill()
    process.wait()
    stage.worker()
    features = stage.until(Features, lambda seen: len({record.identity for record in seen}) == rows)
    assert len(features) > rows


def test_a_second_worker_takes_partitions_over_with_their_state(kafka_stage: Stage) -> None:
    stage = kafka_stage
    nodes = [f"n{n}" for n in range(16)]
    stage.process(slot=0)
    stage.feed(*(frame(stage, node, tick, bad=tick >= 8) for tick in range(10) for node in nodes))
    stage.until(Finding, lambda seen: len(seen) == len(nodes))
    stage.worker(slot=1)
    for tick in range(10, 60):
        stage.feed(*(frame(stage, node, tick, bad=tick < 55) for node in nodes))
        time.sleep(0.05)
    features = stage.until(Features, lambda seen: len({record.identity for record in seen}) == 60 * len(nodes), 60)
    findings = stage.until(Finding, lambda seen: sum(f.state == "close" for f in seen) >= len(nodes))
    stage.reached_the_end("node-frames", "findings")
    assert len({f.id for f in findings}) == len(nodes), "an open finding went over, no second one was opened"
    assert {f.state for f in findings} == {"open", "heartbeat", "close"}
    last = {record.node: record.gpus[0].score for record in features if record.seq == 59}
    assert all(score >= 60 - 4 for score in last.values()), last
