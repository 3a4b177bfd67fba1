"""The writer's loop: kill it anywhere, take ClickHouse away, feed it poison; the rows come out the same."""

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import lz4.frame
import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError
from clickhouse_rows import rows

from runtime.deadletters import TooManyBadMessages
from runtime.errors import UserError
from runtime.health import Counters, HealthReporter
from schemas import CollectiveFrame, DeadLetter, Event, Features, Health, NodeFrame, Record
from schemas.codec import decode, encode
from schemas.collective import Operation
from schemas.examples import EXAMPLES
from schemas.matrix import Matrix
from storage.writer import Limits, Writer

clusters = (f"writer-{n}" for n in itertools.count())
TICK = 1_700_000_000_000


class Message(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes
    timestamp_ms: int = TICK


class Killed(BaseException):
    """The process dies here."""


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.on_sleep: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return TICK + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.on_sleep()


class Deaths:
    """Kills at the n-th crossing of a point where a process may die."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.crossed = at, 0

    def cross(self) -> None:
        self.crossed += 1
        if self.crossed == self.at:
            raise Killed


class Topics:
    """A broker: what lies on the topics, and how far the writers' group has committed."""

    def __init__(self, *messages: Message) -> None:
        self.log = list(messages)
        self.committed = 0

    def put(self, *records: Record) -> "Topics":
        for record in records:
            self.raw(record.topic, encode(record))
        return self

    def raw(self, topic: str, value: bytes) -> None:
        self.log.append(Message(topic, 0, len(self.log), value))


class Consumer:
    """Reads on from the last commit, as the group's next member does after a death."""

    def __init__(self, topics: Topics, clock: Clock, deaths: Deaths) -> None:
        self._topics, self._clock, self._deaths = topics, clock, deaths
        self.polled = topics.committed
        self.polls = 0

    def poll(self, max_records: int, timeout_s: float) -> list[Message]:
        self.polls += 1
        found = self._topics.log[self.polled : self.polled + max_records]
        self.polled += len(found)
        if not found:
            self._clock.seconds += timeout_s
        return found

    def position(self) -> int:
        return self.polled

    def commit(self, position: int) -> None:
        self._deaths.cross()
        self._topics.committed = position
        self._deaths.cross()


class Producer:
    """Acknowledges at a flush, into `topics`; refuses the first `failing` flushes."""

    def __init__(self, topics: Topics, deaths: Deaths, failing: int = 0) -> None:
        self._topics, self._deaths, self.failing = topics, deaths, failing
        self._waiting: list[tuple[str, bytes, Any]] = []
        self.sent: list[Record] = []

    def send(
        self, topic: str, key: str, value: bytes, on_done: Callable[[Exception | None], None] | None = None
    ) -> None:
        self._waiting.append((topic, value, on_done))

    def flush(self, timeout_s: float) -> bool:
        self._deaths.cross()
        waiting, self._waiting = self._waiting, []
        failed = self.failing > 0
        self.failing -= failed
        for _, value, on_done in waiting:
            if not failed:
                self.sent.append(decode(value))
            if on_done is not None:
                on_done(RuntimeError("refused") if failed else None)
        self._deaths.cross()
        return True

    def letters(self) -> list[DeadLetter]:
        return [record for record in self.sent if isinstance(record, DeadLetter)]


class ClickHouse:
    """The real client; dies or fails on the way in or out."""

    def __init__(self, client: Client, deaths: Deaths, failures: Sequence[Exception] = ()) -> None:
        self._client, self._deaths, self._failures = client, deaths, list(failures)
        self.inserted: list[bytes] = []
        self.refused = 0

    def raw_insert(self, table: str, *, insert_block: bytes, compression: str) -> None:
        self._deaths.cross()
        if self._failures:
            self.refused += 1
            raise self._failures.pop(0)
        self._client.raw_insert(table, insert_block=insert_block, compression=compression)
        self.inserted += re.findall(rb"INSERT INTO (\w+)", lz4.frame.decompress(insert_block)[:100])
        self._deaths.cross()


class Process:
    """One life of a writer on `topics`."""

    def __init__(
        self,
        client: Client,
        topics: Topics,
        *,
        deaths: Deaths | None = None,
        failures: Sequence[Exception] = (),
        failing_flushes: int = 0,
        limits: Limits | None = None,
    ) -> None:
        deaths = deaths or Deaths()
        self.clock, self.counters, self.stop = Clock(), Counters(), threading.Event()
        self.consumer = Consumer(topics, self.clock, deaths)
        self.producer = Producer(topics, deaths, failing_flushes)
        self.clickhouse = ClickHouse(client, deaths, failures)
        self.topics = topics
        health = HealthReporter("c", "writer", "test", 1, self.counters, self.clock)
        self.writer = Writer(
            self.consumer, self.producer, self.clickhouse, "c", health, self.counters, self.clock, limits or Limits()
        )

    def drain(self) -> "Process":
        while self.topics.committed < len(self.topics.log):
            self.writer.turn(self.stop)
        return self


def gpu_only(seq: int) -> dict[str, Matrix]:
    return {"gpu": Matrix.of(["GPU-1", "GPU-2"], ["power_w"], [[seq], [seq + 0.5]])}


def frame(cluster: str, seq: int) -> NodeFrame:
    sections = gpu_only(seq) | {"host": Matrix.of(["n"], ["load_1m"], [[seq]])}
    return NodeFrame(cluster=cluster, ts_ms=TICK + 1000 * seq, node="n", run_id=1, seq=seq, sections=sections)


def everything(cluster: str) -> list[Record]:
    return [msgspec.structs.replace(example, cluster=cluster) for example in EXAMPLES]


def samples(client: Client, cluster: str) -> list[tuple[int, str, float]]:
    return sorted((row["seq"], row["gpu"], row["power_w"]) for row in rows(client, "gpu_samples", cluster))


def all_samples(count: int) -> list[tuple[int, str, float]]:
    return [(seq, f"GPU-{g + 1}", seq + g / 2) for seq in range(count) for g in range(2)]


def test_what_is_on_the_topics_is_in_the_tables_and_committed(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*everything(cluster))
    process = Process(database, topics).drain()
    assert topics.committed == len(EXAMPLES)
    for table in ("node_frames", "events", "steps", "gpu_scores", "gpu_baselines", "incidents", "models", "alert_log"):
        assert len(rows(database, table, cluster)) == 1, table
    assert len(process.clickhouse.inserted) == len(set(process.clickhouse.inserted)), "one insert per table and batch"
    assert process.producer.letters() == []
    assert process.counters.totals()["sent{gpu_samples}"] == 1


def test_kill_between_insert_and_commit_loses_nothing_and_doubles_nothing(database: Client) -> None:
    """Kill at every point of a run in turn; each next life goes on from the last commit, and cuts other batches."""
    deaths_met = 0
    for at in itertools.count(1):
        cluster = next(clusters)
        frames = [msgspec.structs.replace(frame(cluster, seq), sections=gpu_only(seq)) for seq in range(6)]
        topics = Topics().put(*frames[:4])
        topics.raw("node-frames", b"poison")
        topics.put(*frames[4:])
        process = Process(database, topics, deaths=Deaths(at), limits=Limits(batch_rows=8, poll_messages=3))
        try:
            process.drain()
            break
        except Killed:
            deaths_met += 1
        successor = Process(database, topics, limits=Limits(batch_rows=14, poll_messages=2)).drain()
        letters = process.producer.letters() + successor.producer.letters()
        assert samples(database, cluster) == all_samples(6), f"killed at point {at}"
        assert {letter.identity for letter in letters} == {("c", "writer", "node-frames", 0, 4)}
    assert deaths_met > 10, "before and after each insert, flush and commit"


def test_dying_again_and_again_still_ends_with_every_row_once(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(12)))
    for at in (3, 5, 4, 7, 6, 2, 8):
        with pytest.raises(Killed):
            Process(database, topics, deaths=Deaths(at), limits=Limits(poll_messages=at, batch_rows=5 * at)).drain()
    Process(database, topics).drain()
    assert samples(database, cluster) == all_samples(12)


AWAY = [
    OperationalError("Error HTTPConnectionPool: connection refused"),
    DatabaseError("Code: 252. DB::Exception: Too many parts", code=252),
    DatabaseError("Code: 241. DB::Exception: Memory limit exceeded", code=241),
    DatabaseError("Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space", code=243),
]


def test_while_clickhouse_is_away_nothing_is_committed_and_nothing_is_lost(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(3)))
    process = Process(database, topics, failures=AWAY)
    committed: list[int] = []
    process.clock.on_sleep = lambda: committed.append(topics.committed)
    process.drain()
    assert committed
    assert set(committed) == {0}
    assert samples(database, cluster) == all_samples(3)
    totals = process.counters.totals()
    assert totals["errors{unreachable}"] == 1
    assert totals["errors{252}"] == totals["errors{241}"] == totals["errors{243}"] == 1
    assert process.producer.letters() == []


def test_a_long_outage_keeps_the_place_in_the_group_with_few_messages_held(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(120)))
    hour = [OperationalError("connection refused")] * 120
    process = Process(database, topics, failures=hour, limits=Limits(batch_rows=40, poll_messages=5))
    moments: list[float] = []
    poll = process.consumer.poll

    def watched(max_records: int, timeout_s: float) -> list[Message]:
        moments.append(process.clock.seconds)
        return poll(max_records, timeout_s)

    process.consumer.poll = watched  # type: ignore[method-assign]
    process.writer.turn(process.stop)
    process.writer.turn(process.stop)
    assert process.clock.seconds > 3000
    assert max(b - a for a, b in itertools.pairwise(moments)) < 300, "Kafka takes a silent reader's partitions away"
    assert topics.committed == 10, "the batch that was stored, and nothing that was polled meanwhile"
    assert process.consumer.polled < 90
    process.writer.settle(process.stop)
    assert topics.committed == 20
    assert len(samples(database, cluster)) == 2 * topics.committed
    assert sum(isinstance(record, Health) for record in flushed(process)) > 300, "health goes on"
    process.drain()
    assert samples(database, cluster) == all_samples(120)


def flushed(process: Process) -> list[Record]:
    process.producer.flush(1)
    return process.producer.sent


def test_stopped_during_an_outage_it_leaves_without_a_commit(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(frame(cluster, 0))
    process = Process(database, topics, failures=AWAY * 100)
    process.clock.on_sleep = process.stop.set
    process.writer.run(process.stop)
    assert topics.committed == 0
    Process(database, topics).drain()
    assert samples(database, cluster) == all_samples(1)


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            DatabaseError("Code: 60. DB::Exception: Unknown table", code=60),
            "no place for gpu_samples: run `lockstep storage",
        ),
        (DatabaseError("Code: 16. DB::Exception: No such column x", code=16), "run `lockstep storage migrate`"),
        (DatabaseError("Code: 516. DB::Exception: Authentication failed", code=516), "refuses rows for gpu_samples"),
    ],
)
def test_what_no_retry_can_help_stops_the_writer_in_one_line(database: Client, failure: Exception, said: str) -> None:
    topics = Topics().put(frame(next(clusters), 0))
    with pytest.raises(UserError, match=said) as caught:
        Process(database, topics, failures=[failure]).drain()
    assert "\n" not in str(caught.value)
    assert topics.committed == 0


def future(record: Record) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.decode(encode(record)) | {"v": 99})


def test_poison_goes_to_the_dead_letters_with_origin_and_reason_and_the_rest_is_stored(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(frame(cluster, 0))
    topics.raw("node-frames", b"\xc1")
    topics.raw("events", future(EXAMPLES[1]))
    topics.raw("steps", encode(frame(cluster, 9)))
    topics.raw("inventory", b"")
    topics.put(frame(cluster, 1))
    process = Process(database, topics, failing_flushes=2).drain()
    assert samples(database, cluster) == all_samples(2)
    letters = process.producer.letters()
    assert [(x.origin_topic, x.origin_partition, x.origin_offset, x.reason) for x in letters] == [
        ("node-frames", 0, 1, "not_msgpack"),
        ("events", 0, 2, "future_version"),
        ("steps", 0, 3, "wrong_topic"),
    ]
    assert letters[0].payload == b"\xc1"
    assert letters[0].ts_ms == TICK
    totals = process.counters.totals()
    assert totals["dropped{future_version}"] == totals["dropped{wrong_topic}"] == totals["dropped{not_msgpack}"] == 1
    assert totals["errors{dead_letters}"] == 2


def test_nothing_is_committed_before_the_dead_letters_are_acknowledged(database: Client) -> None:
    topics = Topics()
    topics.raw("node-frames", b"poison")
    process = Process(database, topics, failing_flushes=1000)
    process.clock.on_sleep = lambda: process.stop.set() if process.clock.seconds > 100 else None
    process.writer.run(process.stop)
    assert topics.committed == 0


def test_a_fleet_of_future_versions_stops_the_writer_before_the_topic_is_drained(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics()
    for seq in range(3000):
        topics.put(
            frame(cluster, seq)
            if seq < 10
            else Event(cluster=cluster, ts_ms=TICK, node="n", run_id=1, seq=seq, kind="x")
        )
        if seq >= 10:
            topics.raw("features", future(next(e for e in EXAMPLES if isinstance(e, Features))))
    process = Process(database, topics)
    with pytest.raises(TooManyBadMessages, match=r"features/0@\d+ future_version: features version 99") as caught:
        process.drain()
    assert "\n" not in str(caught.value)
    letters = process.producer.letters()
    assert len(letters) < 1000
    assert topics.committed < len(topics.log)
    assert all(letter.origin_offset < topics.committed for letter in letters)


def test_a_record_that_no_row_can_hold_is_buried_alone(database: Client) -> None:
    cluster = next(clusters)
    good = msgspec.structs.replace(next(e for e in EXAMPLES if isinstance(e, CollectiveFrame)), cluster=cluster)
    bad = msgspec.structs.replace(good, seq=99, operations=(Operation(7, "AllReduce", 1, 1, 1.0, TICK),))
    huge = Event(cluster=cluster, ts_ms=TICK, node="n", run_id=1, seq=1, kind="xid", code=2**64 - 1)
    topics = Topics().put(good, msgspec.structs.replace(good, seq=98), bad, huge, frame(cluster, 0))
    topics.put(msgspec.structs.replace(huge, seq=2, code=3), msgspec.structs.replace(good, seq=100))
    process = Process(database, topics).drain()
    assert [row["seq"] for row in rows(database, "collective_operations", cluster)] == [43, 98, 100]
    assert [row["code"] for row in rows(database, "events", cluster)] == [3]
    assert [(x.origin_offset, x.reason) for x in process.producer.letters()] == [(2, "unfit"), (3, "unfit")]
    assert process.producer.letters()[0].detail.startswith("collective_operations: ")
    assert samples(database, cluster) == all_samples(1)


class Slow(ClickHouse):
    """Holds up the first insert until `meanwhile`, in its thread, has seen what it waits for."""

    def __init__(self, like: ClickHouse, meanwhile: Callable[[], None]) -> None:
        self.__dict__ = dict(like.__dict__)
        self._meanwhile: list[Callable[[], None]] = [meanwhile]

    def raw_insert(self, table: str, *, insert_block: bytes, compression: str) -> None:
        if self._meanwhile:
            self._meanwhile.pop()()
        super().raw_insert(table, insert_block=insert_block, compression=compression)


def until(said: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not said():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def slowed(process: Process, meanwhile: Callable[[], None]) -> Process:
    process.clickhouse = Slow(process.clickhouse, meanwhile)
    process.writer._client = process.clickhouse
    return process


SMALL = Limits(batch_rows=8, poll_messages=2)
"""Batches of two frames."""


def test_the_next_batch_is_gathered_while_one_is_stored_and_commits_follow_their_own_batch(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(6)))
    process = Process(database, topics, limits=SMALL)
    seen: list[int] = []

    def meanwhile() -> None:
        until(lambda: process.consumer.polled == 4)
        seen.append(topics.committed)

    slowed(process, meanwhile)
    for committed in (0, 2, 4):
        assert process.writer.turn(process.stop) == 2
        assert topics.committed == committed
    process.writer.settle(process.stop)
    assert topics.committed == 6
    assert seen == [0]
    assert samples(database, cluster) == all_samples(6)


@pytest.mark.parametrize("at", [1, 2, 6, 7])
def test_kill_between_insert_and_commit_while_the_next_batch_is_ready(database: Client, at: int) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(6)))
    process = Process(database, topics, deaths=Deaths(at), limits=SMALL)
    slowed(process, lambda: until(lambda: process.consumer.polled == 4))
    with pytest.raises(Killed):
        process.drain()
    assert process.consumer.polled == 4
    assert topics.committed == 0
    Process(database, topics).drain()
    assert samples(database, cluster) == all_samples(6)


def test_an_insert_that_fails_while_the_next_batch_is_gathered_comes_before_it(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(6)))
    process = Process(database, topics, failures=AWAY, limits=SMALL)
    committed: list[int] = []
    process.clock.on_sleep = lambda: committed.append(topics.committed)
    process.writer.turn(process.stop)
    until(lambda: process.clickhouse.refused == 1)
    process.writer.turn(process.stop)
    assert set(committed) == {0}
    assert topics.committed == 2
    assert samples(database, cluster)[:4] == all_samples(2)
    process.drain()
    assert samples(database, cluster) == all_samples(6)
    assert process.counters.totals()["errors{unreachable}"] == 1


def test_while_an_insert_takes_long_nothing_more_is_taken_and_the_place_is_kept(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(20)))
    process = Process(database, topics, limits=SMALL)

    def meanwhile() -> None:
        until(lambda: process.consumer.polled == 4)
        for minute in (1, 2, 3):
            process.clock.seconds += 61
            until(lambda minute=minute: process.consumer.polled == 4 + minute)  # type: ignore[misc]

    slowed(process, meanwhile)
    process.writer.turn(process.stop)
    process.writer.turn(process.stop)
    assert process.consumer.polled == 7, "one message a minute"
    assert topics.committed == 2
    assert sum(isinstance(record, Health) for record in flushed(process)) >= 3, "health goes on"
    process.drain()
    assert samples(database, cluster) == all_samples(20)


def test_stopped_while_inserting_what_was_taken_is_stored_and_committed(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(20)))
    process = Process(database, topics, limits=SMALL)

    def meanwhile() -> None:
        until(lambda: process.consumer.polled == 4)
        process.stop.set()

    slowed(process, meanwhile).writer.run(process.stop)
    assert topics.committed == process.consumer.polled < 20
    assert samples(database, cluster) == all_samples(topics.committed)


def test_a_batch_is_committed_as_soon_as_it_is_stored_although_the_topic_is_silent(database: Client) -> None:
    topics = Topics().put(frame(next(clusters), 0))
    process = Process(database, topics)
    process.writer.turn(process.stop)
    began = process.clock.seconds
    poll, after = process.consumer.poll, list[float]()

    def watched(max_records: int, timeout_s: float) -> list[Message]:
        if topics.committed and not after:
            after.append(process.clock.seconds - began)
        until(lambda: process.writer._storing is None or process.writer._storing.done())
        return poll(max_records, timeout_s)

    process.consumer.poll = watched  # type: ignore[method-assign]
    process.writer.turn(process.stop)
    assert after == [pytest.approx(0.1)]


def test_what_no_retry_can_help_is_said_while_the_topic_is_silent(database: Client) -> None:
    topics = Topics().put(frame(next(clusters), 0))
    process = Process(database, topics, failures=[DatabaseError("Code: 60. DB::Exception: Unknown table", code=60)])
    process.writer.turn(process.stop)
    until(lambda: process.clickhouse.refused == 1)
    with pytest.raises(UserError, match="no place for gpu_samples"):
        process.writer.turn(process.stop)
    assert process.consumer.polls <= 3
    assert topics.committed == 0


def test_columns_of_newer_agents_are_counted(database: Client) -> None:
    cluster = next(clusters)
    sections = {"gpu": Matrix.of(["GPU-1"], ["power_w", "flux"], [[1, 2]]), "warp": Matrix.of(["n"], ["x"], [[1]])}
    record = msgspec.structs.replace(frame(cluster, 0), sections=sections)
    process = Process(database, Topics().put(record)).drain()
    assert samples(database, cluster) == [(0, "GPU-1", 1.0)]
    assert process.counters.totals()["dropped{unknown_column}"] == 2


def test_health_says_what_was_done_and_how_late(database: Client) -> None:
    cluster = next(clusters)
    process = Process(database, Topics().put(frame(cluster, 0))).drain()
    process.clock.seconds += 20
    process.writer.turn(process.stop)
    newest = [record for record in flushed(process) if isinstance(record, Health)][-1]
    assert newest.process == "writer"
    assert newest.counters["sent{gpu_samples}"] == 2
    assert newest.gauges["age_s"] == pytest.approx(process.clock.seconds, abs=Limits().batch_s + 0.5)


def test_batches_are_bounded_by_rows_and_by_time(database: Client) -> None:
    cluster = next(clusters)
    topics = Topics().put(*(frame(cluster, seq) for seq in range(40)))
    process = Process(database, topics, limits=Limits(batch_rows=40, poll_messages=4))
    assert process.writer.turn(process.stop) == 12, "four rows a frame, whole polls"
    started = process.clock.seconds
    topics.log[:] = topics.log[:14]
    assert process.writer.turn(process.stop) == 2
    assert process.clock.seconds - started == pytest.approx(Limits().batch_s)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("ERROR"):
        yield
