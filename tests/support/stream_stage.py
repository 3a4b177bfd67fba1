"""Workers on a broker, what they are fed, and what they made of it."""

import gc
import json
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TypeVar

import msgspec
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from stand_in import plan

from runtime.health import Counters
from runtime.kafka import Consumer, Message, Offsets, Partition, Producer, create_topics
from runtime.settings import Connection
from schemas import NodeFrame, Record, StepFrame
from schemas.codec import WireError, decode
from schemas.step import RankStep
from streams.service import run
from streams.settings import WorkerSettings
from streams.topics import changelog_topics
from streams.worker import Plan

ROOT = Path(__file__).parents[2]
PARTITIONS = 4
READ = ("node-frames", "events", "collectives", "steps", "features", "findings")
START_MS = 1_700_000_000_000
R = TypeVar("R", bound=Record)


class Stage:
    """One test's own cluster and consumer group on a broker: what other tests left there is not read."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.settings = WorkerSettings(
            **msgspec.structs.asdict(connection) | {"cluster": name},
            group=name,
            commit_interval_s=0.2,
            checkpoint_s=3.0,
            health_interval_s=0.5,
        )
        self.cluster = name
        self.producer = Producer(connection, name, Counters())
        create_topics(connection, PARTITIONS, 1, compacted=changelog_topics(name))
        self._offsets = Offsets(connection)
        self._readers: dict[str, Consumer] = {}
        self._read: dict[str, list[Record]] = {}
        self._stops: list[Callable[[], None]] = []
        self._workers: list[ThreadWorker] = []
        if not connection.broker_embedded:
            self.commit(self.ends_by_partition(READ))

    def beside(self, cluster: str) -> "Stage":
        """Another cluster with the same worker."""
        other = copy(self)
        other.cluster = cluster
        return other

    def feed(self, *records: Record) -> None:
        for record in records:
            self.producer.send_record(record)
        assert self.producer.flush(20)

    def worker(self, chosen: Plan | None = None, slot: int = 0) -> "ThreadWorker":
        return self._started(ThreadWorker(msgspec.structs.replace(self.settings, slot=slot), chosen or plan()))

    def product(self) -> "ThreadWorker":
        """A worker with the product's own detectors, as `lockstep worker` starts it."""
        return self._started(ThreadWorker(self.settings, None))

    def _started(self, worker: "ThreadWorker") -> "ThreadWorker":
        self._stops.append(worker.stop)
        self._workers.append(worker)
        return worker

    def forget_failures(self) -> None:
        """Workers that have failed are what was wanted: wait for what those after them do."""
        self._workers = [worker for worker in self._workers if worker.failure is None]

    def process(self, slot: int = 0) -> "subprocess.Popen[bytes]":
        settings = msgspec.structs.asdict(msgspec.structs.replace(self.settings, slot=slot))
        command = [sys.executable, str(ROOT / "tests" / "support" / "stand_in.py"), json.dumps(settings)]
        process = subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": ""})

        def end() -> None:
            process.kill()
            process.wait(10)

        self._stops.append(end)
        return process

    def seen(self, cls: type[R]) -> list[R]:
        """All records of this class that are on its topic, of this test's cluster."""
        topic = cls.topic
        if topic not in self._readers:
            if not self._offsets.partitions([topic]):  # nobody has sent anything there yet
                return []
            self._readers[topic] = Consumer(self.settings, None, (topic,), None)
            self._read[topic] = []
        for message in self._readers[topic].to_the_end():
            record = _record(message)
            if record is not None:
                self._read[topic].append(record)
        return [one for one in self._read[topic] if isinstance(one, cls) and one.cluster == self.cluster]

    def until(self, cls: type[R], enough: Callable[[list[R]], bool], timeout_s: float = 90.0) -> list[R]:
        """What is seen once it is enough."""
        deadline = time.monotonic() + timeout_s
        while not enough(seen := self.seen(cls)):
            for worker in self._workers:
                if worker.failure is not None:
                    raise worker.failure
            assert time.monotonic() < deadline, f"only {len(seen)} {cls.__name__} within {timeout_s} s: {seen[-3:]}"
            time.sleep(0.05)
        return seen

    def committed(self) -> dict[str, int]:
        """The group's positions of each topic, summed over its partitions."""
        partitions = self._offsets.partitions(READ)
        return _by_topic(self._offsets.committed(self.settings.group, partitions))

    def eventually(self, true: Callable[[], bool], timeout_s: float = 90.0) -> None:
        """Return when it is true."""
        deadline = time.monotonic() + timeout_s
        while not true():
            assert time.monotonic() < deadline, f"not true within {timeout_s} s"
            time.sleep(0.1)

    def reached_the_end(self, *topics: str) -> None:
        """Return when all that is on these topics now is committed."""
        ends = self.ends()
        self.eventually(lambda: all(self.committed().get(topic, 0) >= ends[topic] for topic in topics))

    def ends(self) -> dict[str, int]:
        """The ends of each topic, summed over its partitions."""
        return _by_topic(self.ends_by_partition(READ))

    def close(self) -> None:
        for stop in self._stops:
            stop()
        self.producer.close(5)
        self._offsets.close()
        for reader in self._readers.values():
            reader.close()

    def ends_by_partition(self, topics: Sequence[str]) -> dict[Partition, int]:
        return self._offsets.ends(self._offsets.partitions(topics))

    def commit(self, positions: Mapping[Partition, int]) -> None:
        """Commit for the group while it has no members."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.settings.broker,
            group_id=self.settings.group,
            enable_auto_commit=False,
            api_version=(2, 3) if self.settings.broker_embedded else None,
        )
        offsets = {TopicPartition(*partition): position for partition, position in positions.items()}
        consumer.assign(list(offsets))
        consumer.commit({partition: OffsetAndMetadata(position, "", -1) for partition, position in offsets.items()})
        consumer.close(autocommit=False)


def _record(message: Message) -> Record | None:
    try:
        return decode(message.value)
    except WireError:
        return None


def _by_topic(positions: Mapping[Partition, int]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for partition, position in positions.items():
        totals[partition.topic] = totals.get(partition.topic, 0) + position
    return totals


class ThreadWorker:
    """A worker in a thread of this process."""

    def __init__(self, settings: WorkerSettings, chosen: Plan | None) -> None:
        self._stop = threading.Event()
        self.failure: BaseException | None = None

        def work() -> None:
            try:
                run(settings, self._stop, plan=chosen)
            except BaseException as error:
                self.failure = error

        self._thread = threading.Thread(target=work)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.join()

    def join(self, timeout_s: float = 20.0) -> None:
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the worker does not end"
        with warnings.catch_warnings():  # Faust leaves the loop of its consumer's thread to the collector
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def frame(stage: Stage, node: str, tick: int, *, bad: bool = False, poison: bool = False) -> NodeFrame:
    """The frame of `node` at second `tick`."""
    missing = {"bad": int(bad), "poison": int(poison)}
    return NodeFrame(
        cluster=stage.cluster,
        ts_ms=START_MS + 1000 * tick,
        node=node,
        run_id=1,
        seq=tick,
        missing={reason: count for reason, count in missing.items() if count},
    )


def steps(stage: Stage, job: str, node: str, tick: int, *, bad: bool = False) -> StepFrame:
    """One step of one rank of `job` on `node`."""
    step = RankStep(rank=0, step=tick, step_us=2e6 if bad else 1e5)
    return StepFrame(
        cluster=stage.cluster, ts_ms=START_MS + 1000 * tick, node=node, run_id=1, seq=tick, job=job, steps=(step,)
    )
