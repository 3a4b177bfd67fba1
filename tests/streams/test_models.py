"""Models that are swapped while workers run: from which tick on, after a restart, and what is refused."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from node_frames import T0, node_frames
from stream_stage import START_MS, Stage, frame

from detectors.forest.model import Forest
from detectors.train.fleet import simulated_forest
from runtime.health import Counters
from schemas import Features, Health, Model, NodeFrame
from schemas.codec import encode
from schemas.frame import Gpu
from streams.in_memory import InMemory
from streams.models import OWN, Follower, Models
from streams.plan import detection, load_model


@cache
def own() -> Forest:
    return load_model("")


@cache
def other() -> Forest:
    return simulated_forest(seed=3, rows=12_000)


def record(forest: Forest | None, ts_ms: int, name: str = "place-0", cluster: str = "c") -> Model:
    payload, model = (b"", OWN) if forest is None else (forest.to_bytes(), forest.name)
    return Model(cluster=cluster, ts_ms=ts_ms, name=name, model=model, payload=payload)


def take(models: Models, *records: Model) -> None:
    for one in records:
        models.take(one.key.encode(), encode(one))


def test_a_publication_holds_from_its_tick_on_in_its_cluster() -> None:
    models = Models(own())
    take(models, record(other(), 5000), record(None, 9000, "place-1"))
    names = [models.at("c", tick_ms).name for tick_ms in (4999, 5000, 8999, 9000)]
    assert names == [own().name, other().name, other().name, own().name]
    assert models.at("elsewhere", 6000) is own()


def test_a_deletion_and_a_newer_record_of_its_name_replace_a_publication() -> None:
    models = Models(own())
    take(models, record(other(), 5000), record(other(), 7000))
    assert models.at("c", 6000) is own()
    assert models.at("c", 7000).name == other().name
    models.take(b"place-0", None)
    assert models.at("c", 7000) is own()


@settings(max_examples=30)
@given(st.permutations([(other, 5000), (None, 9000), (other, 9500), (None, 12_000)]))
def test_it_does_not_matter_in_which_order_publications_are_read(order: Sequence[tuple[object, int]]) -> None:
    models = Models(own())
    take(models, *(record(None if made is None else other(), ms, f"at-{ms}") for made, ms in order))
    ticks = range(4000, 13_000, 500)
    assert [models.at("c", ms).name == other().name for ms in ticks] == [
        5000 <= ms < 9000 or 9500 <= ms < 12_000 for ms in ticks
    ]


def _damaged() -> Iterator[tuple[bytes, str]]:
    good = record(other(), 5000, "place-1")
    flipped = bytearray(good.payload)
    flipped[-1] ^= 1
    yield encode(replace(good, payload=bytes(flipped))), "checksum does not match"
    yield encode(replace(good, payload=b"\x80\x04pickle")), "not a Lockstep forest model"
    yield encode(replace(good, model="fleet-00000000")), "the record says fleet-00000000, its bytes are"
    yield b"\xc1", "not_msgpack"


@pytest.mark.parametrize("which", range(4))
def test_a_bad_model_is_refused_in_one_line_and_the_old_one_stays(which: int, caplog: pytest.LogCaptureFixture) -> None:
    payload, said = list(_damaged())[which]
    counters = Counters()
    models = Models(own(), counters)
    take(models, record(other(), 4000))
    assert models.take(b"place-1", payload) is None
    assert models.at("c", 6000).name == other().name
    assert counters.totals() == {"errors{model_refused}": 1}
    (line,) = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.ERROR]
    assert line.startswith("model place-1 refused, scoring goes on as before: ")
    assert said in line
    assert "\n" not in line


FRAMES = node_frames(range(80), gpus=2)


def scores(heard_at: int, frames: Sequence[NodeFrame] = FRAMES) -> list[Features]:
    """What is said of the frames by a worker that hears of the publication for second 60 before frame `heard_at`."""
    models = Models(own())
    pipeline = InMemory({"node": detection(models)["node"]}, Counters())
    said = []
    for number, one in enumerate(frames):
        if number == heard_at:
            take(models, record(other(), T0 + 60_000))
        said += [out for out in pipeline.take([one]) if isinstance(out, Features)]
    return said


def test_ticks_are_scored_the_same_whenever_the_publication_was_heard_before() -> None:
    first = scores(heard_at=0)
    assert [features.model for features in first] == [own().name] * 60 + [other().name] * 20
    assert encode(first[70]) != encode(scores(heard_at=99)[70])
    for heard_at in (10, 59, 60):
        assert [encode(said) for said in scores(heard_at)] == [encode(said) for said in first]


class Topic:
    """A consumer of one partition with these records, of which each fetch brings one."""

    def __init__(self, *records: Model) -> None:
        self._records, self._next = records, 0

    async def start(self) -> None: ...

    def assignment(self) -> set[int]:
        return {0}

    async def end_offsets(self, partitions: set[int]) -> dict[int, int]:
        return {0: len(self._records)}

    async def position(self, partition: int) -> int:
        return self._next

    async def getmany(self, timeout_ms: int) -> dict[int, list[SimpleNamespace]]:
        record = self._records[self._next]
        self._next += 1
        return {0: [SimpleNamespace(key=record.key.encode(), value=encode(record))]}


def test_a_start_reads_the_whole_topic_and_a_publication_for_ticks_that_are_over_is_counted() -> None:
    counters, models = Counters(), Models(own())
    topic: Any = Topic(record(other(), 4000), record(None, 6000, "place-1"), record(other(), 9000, "place-2"))
    asyncio.run(Follower(models, topic, counters, {"c": 6001}.get).start())
    assert [models.at("c", ms).name == other().name for ms in (4000, 6000, 9000)] == [True, False, True]
    assert counters.totals() == {"errors{model_late}": 2}


def product_frame(stage: Stage, tick: int) -> NodeFrame:
    measured = node_frames(range(tick, tick + 1), gpus=1, job="")[0]
    return replace(frame(stage, "n1", tick), gpus=(Gpu(uuid="GPU-0"),), sections=measured.sections)


def test_a_worker_swaps_at_the_tick_refuses_a_bad_one_and_keeps_it_over_a_restart(embedded_stage: Stage) -> None:
    stage = embedded_stage
    bad = record(other(), START_MS + 5000, "place-1", stage.cluster)
    worker = stage.product()
    stage.feed(*(product_frame(stage, tick) for tick in range(3)))
    stage.until(Features, lambda seen: len(seen) >= 3)
    stage.feed(
        record(other(), START_MS + 5000, "place-0", stage.cluster), replace(bad, payload=bad.payload[:-1] + b"\xff")
    )
    stage.until(Health, lambda seen: seen[-1:] and seen[-1].counters.get("errors{model_refused}") == 1)
    stage.until(Health, lambda seen: seen[-1].gauges.get("models") == 1)
    stage.feed(*(product_frame(stage, tick) for tick in range(3, 8)))
    before = stage.until(Features, lambda seen: len(seen) >= 8)
    assert [one.model for one in before] == [own().name] * 5 + [other().name] * 3
    worker.stop()
    stage.product()
    stage.feed(*(product_frame(stage, tick) for tick in range(8, 10)))
    after = stage.until(Features, lambda seen: len({one.seq for one in seen}) >= 10)
    assert {one.model for one in after if one.seq >= 8} == {other().name}
    stage.feed(record(None, START_MS + 11_000, "place-2", stage.cluster))  # as a rollback does
    stage.until(Health, lambda seen: seen[-1].gauges.get("models") == 2)
    stage.feed(*(product_frame(stage, tick) for tick in range(10, 13)))
    rolled = stage.until(Features, lambda seen: any(one.seq == 12 for one in seen))
    assert [one.model for one in rolled if one.seq >= 10] == [other().name, own().name, own().name]
