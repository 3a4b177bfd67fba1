"""The whole product on a Kafka of its own: topics, migration, worker, writer and alerts as users start them."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_provider import without_kafka
from local_kafka import Unavailable, local_kafka
from pagerduty_receiver import ROUTING_KEY, PagerDutyReceiver

from lockstep.supervisor import Service, Supervisor
from runtime.clock import SystemClock
from runtime.groups import READS
from runtime.kafka.offsets import Offsets
from runtime.settings import ClickHouse, Connection
from schemas import Incident
from storage.client import get_client
from storage.queries import incidents, position

ROOT = Path(__file__).parents[2]
CLUSTER = "end-to-end"


class Product:
    """Runs `lockstep` processes against `broker` and `database`; any of them may be killed, it comes back."""

    def __init__(self, broker: Connection, database: ClickHouse, receiver: PagerDutyReceiver, folder: Path) -> None:
        self.broker, self.receiver, self._folder = broker, receiver, folder
        self.environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "LOCKSTEP_CLUSTER": CLUSTER,
            "LOCKSTEP_BROKER": broker.broker,
            "LOCKSTEP_BROKER_EMBEDDED": str(broker.broker_embedded).lower(),
            "LOCKSTEP_CLICKHOUSE_HOST": database.clickhouse_host,
            "LOCKSTEP_CLICKHOUSE_PORT": str(database.clickhouse_port),
            "LOCKSTEP_CLICKHOUSE_DATABASE": database.clickhouse_database,
            "LOCKSTEP_PAGERDUTY_ROUTING_KEY": ROUTING_KEY,
            "LOCKSTEP_PAGERDUTY_URL": receiver.url,
            "LOCKSTEP_PAGERDUTY_CA": receiver.ca,
        }
        self.client = get_client(database)
        self._offsets = Offsets(broker)
        services = [
            Service(name="topics", arguments=("topics", "create"), once=True),
            Service(name="migrate", arguments=("storage", "migrate"), once=True),
            *(Service(name=name, arguments=(name,)) for name in ("worker", "writer", "alerts")),
        ]
        self._supervisor = Supervisor(services, self.environment, folder / "log", SystemClock())
        self._fleet: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._supervisor.start()

    def simulate(self, **settings: Any) -> None:
        """Start the simulated fleet; `wait_for_fleet` waits for its last tick."""
        options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        with (self._folder / "fleet.log").open("wb") as log:
            command = [sys.executable, "-m", "lockstep", "simulate", *options]
            self._fleet = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def fleet_done(self) -> bool:
        assert self._fleet is not None
        return self._fleet.poll() is not None

    def kill(self, *names: str) -> None:
        for name in names:
            os.kill(self._supervisor.pid(name), 9)

    def until(self, reached: Callable[[], bool], what: str, seconds: float) -> None:
        """Keep everything running until `reached`; what did not happen is said with the end of the logs."""
        deadline = time.monotonic() + seconds
        while not reached():
            self._supervisor.tend()
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {seconds:g} s\n{self.last_words()}")
            time.sleep(0.2)  # each look is a query beside the batches

    def incidents(self) -> list[Incident]:
        return incidents(self.client, cluster=CLUSTER)

    def position_ms(self) -> int:
        """The newest tick that is in ClickHouse."""
        return position(self.client)[0]

    def unread(self, group: str, topics: Iterable[str]) -> dict[str, int]:
        """Messages that these topics have now and `group` has not committed, where there are any."""
        ends = self._offsets.ends(self._offsets.partitions(topics))
        committed = self._offsets.committed(group, ends)
        left: Counter[str] = Counter()
        for partition, end in ends.items():
            left[partition.topic] += end - committed.get(partition, 0)
        return {topic: count for topic, count in left.items() if count}

    def one(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
        return self.client.query(sql, parameters=dict(parameters or {})).result_rows[0][0]

    def last_words(self) -> str:
        logs = [(self._folder / name) for name in ("log", "fleet.log")]
        said = [path.read_text(errors="replace")[-4000:] for path in logs if path.exists()]
        return "\n".join([*said, *(f"unread by {group}: {self.unread(group, READS[group])}" for group in READS)])

    def stop(self) -> None:
        if self._fleet is not None:
            self._fleet.terminate()
            self._fleet.wait(20)
        self._supervisor.stop()
        self._offsets.close()
        self.client.close()


@contextlib.contextmanager
def whole_product(database: ClickHouse, behaviour: list[int | str]) -> Iterator[Product]:
    """Everything up on a fresh Kafka; skips (or fails where it is required) without one."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-test-")))
        try:
            broker = stack.enter_context(local_kafka())
        except Unavailable as error:
            without_kafka(str(error))
        receiver = stack.enter_context(PagerDutyReceiver(folder, behaviour=behaviour))
        product = Product(Connection(broker=broker.address), database, receiver, folder)
        stack.callback(product.stop)
        product.start()
        yield product
