"""Frames become features, findings and incidents; what cannot be used is kept and counted, and stops nobody."""

import asyncio
import gc
from random import Random

import msgspec
import pytest
from faust.tables.recovery import ServiceStopped
from stand_in import plan
from stream_stage import Stage, frame, steps

from runtime.deadletters import TooManyBadMessages
from runtime.errors import BrokerLostRecords, UserError
from runtime.settings import Connection
from schemas import DeadLetter, Features, Finding, Health, Incident
from schemas.codec import encode
from streams import service
from streams.service import check_topics
from streams.settings import WorkerSettings


def test_frames_become_features_findings_and_incidents(stage: Stage) -> None:
    stage.feed(*(frame(stage, node, tick) for tick in range(5) for node in ("n1", "n2", "n3")))
    stage.worker()
    stage.feed(*(frame(stage, "n2", tick, bad=True) for tick in range(5, 8)))
    stage.feed(*(frame(stage, "n2", tick) for tick in range(8, 10)))
    incidents = stage.until(Incident, lambda seen: len(seen) >= 2)
    assert [incident.change for incident in incidents] == ["open", "resolve"]
    findings = stage.until(Finding, lambda seen: len(seen) >= 2)
    assert [(f.state, f.subject.node) for f in findings] == [("open", "n2"), ("close", "n2")]
    features = stage.until(Features, lambda seen: len(seen) >= 20)
    assert len({record.identity for record in features}) == len(features) == 20


def test_the_steps_of_a_jobs_nodes_are_judged_together(busy_stage: Stage) -> None:
    stage = busy_stage
    for tick in range(30):
        stage.feed(*(steps(stage, "j1", f"n{n}", tick, bad=tick == 15 and n == 2) for n in range(4)))
    findings = stage.until(Finding, lambda seen: len(seen) >= 2)
    assert [(f.state, f.victims, f.onset_ms % 100_000) for f in findings] == [("open", 4, 15_000), ("close", 4, 15_000)]
    stage.eventually(lambda: stage.committed().get("steps", 0) == 4 * 30)


def test_bad_bytes_go_to_dead_letters_and_do_not_stop(stage: Stage) -> None:
    stage.worker()
    stage.feed(frame(stage, "n1", 0))
    stage.producer.send("node-frames", "n1", b"\x93nonsense")
    stage.producer.send("events", "n1", encode(frame(stage, "n1", 1)))
    stage.feed(frame(stage, "n1", 2))
    letters = stage.until(DeadLetter, lambda seen: len(seen) >= 2)
    assert {(letter.origin_topic, letter.reason) for letter in letters} == {
        ("node-frames", "unknown_type"),
        ("events", "wrong_topic"),
    }
    (first,) = (letter for letter in letters if letter.origin_topic == "node-frames")
    assert first.payload == b"\x93nonsense"
    features = stage.until(Features, lambda seen: len(seen) >= 2)
    assert [record.seq for record in features] == [0, 2]
    stage.reached_the_end("node-frames", "events")


def test_a_detector_that_raises_resets_one_node_and_nobody_else(busy_stage: Stage) -> None:
    stage = busy_stage
    stage.feed(*(frame(stage, node, tick) for tick in range(3) for node in ("n1", "n2")))
    stage.feed(frame(stage, "n1", 3, poison=True), frame(stage, "n2", 3))
    stage.feed(*(frame(stage, node, 4) for node in ("n1", "n2")))
    features = stage.until(Features, lambda seen: len(seen) >= 9)
    learned = {(record.node, record.seq): record.gpus[0].score for record in features}
    assert learned["n1", 4] == 1, "the node whose detector raised starts from nothing"
    assert learned["n2", 4] == 5
    (letter,) = stage.until(DeadLetter, lambda seen: len(seen) >= 1)
    assert letter.reason == "detector_failed"
    assert letter.detail == "ValueError('poison')"
    assert msgspec.msgpack.decode(letter.payload)["seq"] == 3


def test_a_finding_that_the_book_cannot_take_costs_no_open_incident(busy_stage: Stage) -> None:
    stage = busy_stage
    stage.feed(frame(stage, "n1", 0), frame(stage, "n1", 1, bad=True))
    (opened,) = stage.until(Finding, lambda seen: len(seen) >= 1)
    stage.feed(msgspec.structs.replace(opened, id="f-2", summary="poison"))
    stage.feed(frame(stage, "n1", 2))
    incidents = stage.until(Incident, lambda seen: len(seen) >= 2)
    assert [incident.change for incident in incidents] == ["open", "resolve"]
    (letter,) = stage.until(DeadLetter, lambda seen: len(seen) >= 1)
    assert letter.origin_topic == "findings"


def test_a_flood_of_bad_bytes_stops_the_worker_with_one_line(embedded_stage: Stage) -> None:
    stage = embedded_stage
    for _ in range(1200):
        stage.producer.send("node-frames", "n1", b"\xc1")
    assert stage.producer.flush(20)
    worker = stage.worker()
    worker.join()
    assert isinstance(worker.failure, TooManyBadMessages)
    assert len(stage.seen(DeadLetter)) < 1000


def test_records_overwritten_before_they_were_read_stop_the_worker_on_the_embedded_broker_once(
    embedded_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage, random = embedded_stage, Random(1)
    stage.feed(frame(stage, "n1", 0))
    stage.commit(stage.ends_by_partition(["node-frames"]))
    for _ in range(60):  # 5 MB is what the broker keeps of a partition
        stage.producer.send("node-frames", "n1", random.randbytes(200_000))
    assert stage.producer.flush(20)
    worker = stage.worker()
    worker.join(30)
    assert isinstance(worker.failure, BrokerLostRecords)
    stage.eventually(lambda: any(record.counters.get("dropped{retention}", 0) > 0 for record in stage.seen(Health)))
    stage.forget_failures()
    stage.worker()
    stage.feed(frame(stage, "n1", 1))
    (feature,) = stage.until(Features, lambda seen: len(seen) >= 1)
    assert feature.seq == 1
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_health_says_what_was_received_and_sent(embedded_stage: Stage) -> None:
    stage = embedded_stage
    stage.worker()
    stage.feed(*(frame(stage, "n1", tick) for tick in range(7)))
    stage.producer.send("node-frames", "n1", b"\xc1")
    records = stage.until(Health, lambda seen: bool(seen) and seen[-1].counters.get("received", 0) >= 15)
    last = records[-1]
    assert last.process == "worker"
    assert last.counters["received"] == 15  # eight frames, and the seven features that streams.job passes over
    assert last.counters["errors{not_msgpack}"] == 1
    assert last.counters["sent"] >= 8
    assert 0 <= last.gauges["lag_s"] < 20
    assert 0 <= last.gauges["last_event_age_s"] < 20
    assert [record.seq for record in records] == list(range(1, len(records) + 1))


@pytest.mark.kafka
def test_missing_topics_are_named_in_one_line(kafka: Connection) -> None:
    settings = WorkerSettings(**msgspec.structs.asdict(kafka), group="nobody-made-these")
    with pytest.raises(UserError, match=r"no topic nobody-made-these-incident-changelog.*run `lockstep topics create`"):
        check_topics(settings, plan())


def test_a_wait_that_ends_because_the_worker_stops_is_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def leave(error: Exception) -> None:
        asyncio.get_running_loop().set_exception_handler(service._unretrieved)

        async def wait() -> None:
            raise error

        task = asyncio.create_task(wait())
        await asyncio.wait([task])
        del task
        gc.collect()

    asyncio.run(leave(ServiceStopped()))
    assert caplog.text == ""
    asyncio.run(leave(ValueError("a fault of ours")))
    assert "a fault of ours" in caplog.text
