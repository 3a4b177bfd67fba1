"""What Faust does with failures, on a real Kafka: the facts that streams/ is built around. If one of these fails after
an upgrade, that is news: read docs/decisions/faust-facts.md again."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.health import Counters
from runtime.kafka import Offsets, Producer
from runtime.settings import Connection

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DEADLINE_S = 60.0
COUNT, BAD = 60, 25
SESSION_S = 10

WORKER = f"""
import sys, time
import faust

address, group, topic_name, output, body, instance = sys.argv[1:7]
app = faust.App(
    group,
    broker="kafka://" + address,
    store="memory://",
    topic_allow_declare=False,
    topic_disable_leader=True,
    broker_session_timeout={SESSION_S},
    broker_heartbeat_interval=1,
    broker_commit_interval=0.5,
    consumer_group_instance_id=instance or None,
    consumer_auto_offset_reset="earliest",
)
topic = app.topic(topic_name, value_type=bytes, value_serializer="raw")
out = open(output, "a", buffering=1)
out.write(f"started {{time.monotonic()}}\\n")


def handle(value):
    if value == b"{BAD}" and body != "plain":
        raise RuntimeError("a fault in our code")
    out.write(f"done {{value.decode()}} {{time.monotonic()}}\\n")


if body == "take":

    @app.agent(topic)
    async def agent(stream):
        async for values in stream.take(10, within=1):
            for value in values:
                handle(value)
else:

    @app.agent(topic)
    async def agent(stream):
        async for value in stream:
            handle(value)

sys.argv[1:] = ["worker", "--without-web", "-l", "error"]
app.main()
"""


class Worker:
    """One Faust worker in a process of its own; `done` is what it has finished, in order."""

    def __init__(self, kafka: Connection, group: str, topic: str, folder: Path, body: str, instance: str) -> None:
        self.output = folder / "output"
        self.output.touch()
        script = folder / "worker.py"
        script.write_text(WORKER)
        self._log = (folder / "log").open("ab")
        arguments = [kafka.broker, group, topic, str(self.output), body, instance]
        command = [sys.executable, str(script), *arguments]
        self.process = subprocess.Popen(command, cwd=folder, stdout=self._log, stderr=self._log)

    def lines(self, kind: str) -> list[list[str]]:
        return [line.split()[1:] for line in self.output.read_text().splitlines() if line.startswith(kind)]

    @property
    def done(self) -> list[int]:
        return [int(line[0]) for line in self.lines("done")]

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not what():
            assert self.process.poll() is None, "the worker ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._log.close()


@contextmanager
def working(kafka: Connection, group: str, topic: str, folder: Path, body: str, instance: str = "") -> Iterator[Worker]:
    worker = Worker(kafka, group, topic, folder, body, instance)
    try:
        yield worker
    finally:
        worker.kill()


def send(kafka: Connection, topic: str, numbers: range) -> None:
    producer = Producer(kafka, "test", Counters())
    for number in numbers:
        producer.send(topic, "key", str(number).encode())
    assert producer.flush(DEADLINE_S)
    producer.close(5)


def acknowledged(kafka: Connection, group: str, topic: str) -> Callable[[], int]:
    def committed() -> int:
        offsets = Offsets(kafka)
        try:
            return sum(offsets.committed(group, offsets.partitions([topic])).values())
        finally:
            offsets.close()

    return committed


def test_take_acknowledges_batches_that_nobody_worked_on(
    kafka: Connection, new_topic: Callable[..., str], unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group = new_topic(kafka, partitions=1), unique("take")
    send(kafka, topic, range(COUNT))
    committed = acknowledged(kafka, group, topic)
    with working(kafka, group, topic, tmp_path, "take") as worker:
        worker.until(lambda: committed() == COUNT)
    lost = sorted(set(range(COUNT)) - set(worker.done))
    print(f"{len(lost)} of {COUNT} messages lost: {lost}")
    assert lost[0] == BAD
    assert len(lost) > 1  # the rest of its batch and what had been read ahead: acknowledged, and gone for good


def test_a_single_event_that_raised_is_acknowledged_and_skipped(
    kafka: Connection, new_topic: Callable[..., str], unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group = new_topic(kafka, partitions=1), unique("single")
    send(kafka, topic, range(COUNT))
    committed = acknowledged(kafka, group, topic)
    with working(kafka, group, topic, tmp_path, "single") as worker:
        worker.until(lambda: committed() == COUNT)
    assert worker.done == [number for number in range(COUNT) if number != BAD]


@pytest.mark.parametrize("instance", ["slot-0", ""])
def test_only_a_worker_with_an_instance_id_is_back_at_once_after_a_kill(
    kafka: Connection, new_topic: Callable[..., str], unique: Callable[[str], str], tmp_path: Path, instance: str
) -> None:
    topic, group = new_topic(kafka, partitions=1), unique("killed")
    send(kafka, topic, range(COUNT))
    with working(kafka, group, topic, tmp_path, "plain", instance) as worker:
        worker.until(lambda: len(worker.done) == COUNT)
        worker.kill()
        killed_s = time.monotonic()
    send(kafka, topic, range(COUNT, 2 * COUNT))
    with working(kafka, group, topic, tmp_path, "plain", instance) as worker:
        worker.until(lambda: COUNT in worker.done)
        back_s = next(float(when) for number, when in worker.lines("done") if int(number) == COUNT)
        started_s = float(worker.lines("started")[-1][0])
    print(f"back {back_s - killed_s:.1f} s after the kill, {back_s - started_s:.1f} s after the start")
    if instance:
        assert back_s - started_s < SESSION_S / 2
    else:
        assert back_s - killed_s > SESSION_S - 2  # until the session of the dead one is over, less a heartbeat
