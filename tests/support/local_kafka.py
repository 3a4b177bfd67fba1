"""Apache Kafka as a child process: KRaft, one node, jars resolved once by Maven into the user's cache."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from runtime.ports import free_port

VERSION = "4.4.0"
SCRATCH = "lockstep-kafka-"
START_S = 60.0
"""Cold start took 4 s on two idle cores; a busy CI machine gets an order of magnitude."""

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lockstep.tests</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""

_PROPERTIES = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={logs}
auto.create.topics.enable=false
num.partitions=4
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.segment.bytes=16777216
log.cleaner.dedupe.buffer.size=2097152
"""


class Unavailable(Exception):
    """Why no Kafka can run here."""


def jars(cache: Path) -> Path:
    """The folder with Kafka's jars, resolved by Maven the first time; raises Unavailable."""
    folder = cache / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven (mvn) is not installed, and it resolves Kafka's jars")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        (Path(work) / "pom.xml").write_text(_POM.format(version=VERSION))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise Unavailable(f"Maven could not resolve Kafka {VERSION}: {done.stdout.strip()[-300:]}")
        with contextlib.suppress(OSError):  # another run was faster
            (Path(work) / "lib").rename(folder)
    return folder


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep"


class LocalKafka:
    """One broker on 127.0.0.1; `stop` and `start` keep its port and its data, `kill` ends it at once."""

    def __init__(self, folder: Path, extra: str = "", heap_mb: int = 320) -> None:
        if shutil.which("java") is None:
            raise Unavailable("Java 17 or newer is not installed")
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._classpath = f"{jars(cache_folder())}/*"
        self._heap = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = folder / "server.properties"
        self._settings.write_text(
            _PROPERTIES.format(port=self.port, controller=free_port(), logs=folder / "logs") + extra, encoding="utf-8"
        )
        self._java("kafka.tools.StorageTool", "format", "-t", uuid.uuid4().hex[:22], "-c", str(self._settings))

    def _java(self, *arguments: str) -> None:
        command = ["java", *self._heap, "-cp", self._classpath, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
        if done.returncode:
            raise Unavailable(f"{arguments[0]} failed: {(done.stderr or done.stdout).strip()[-300:]}")

    def start(self) -> None:
        """Start the broker and return when it accepts connections; raises Unavailable."""
        command = ["java", *self._heap, "-cp", self._classpath, "kafka.Kafka", str(self._settings)]
        keeper = shutil.which("setpriv")
        if keeper:  # the kernel ends the broker with the test run, however that ends
            command = [keeper, "--pdeathsig", "KILL", *command]
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.1)
        self.kill()
        raise Unavailable(f"Kafka did not start: {(self._folder / 'broker.log').read_text()[-300:]}")

    def stop(self) -> None:
        """Ask the broker to end, as an operator would; it flushes its log."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def local_kafka(extra: str = "") -> Iterator[LocalKafka]:
    """A running broker with its own scratch folder, both gone afterwards; raises Unavailable.

    `extra` are lines of server.properties; they win over ours.
    """
    _sweep()
    with tempfile.TemporaryDirectory(prefix=f"{SCRATCH}{os.getpid()}-") as folder:
        broker = LocalKafka(Path(folder), extra)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()


def _sweep() -> None:
    """Remove what a killed test run left: its broker died with it, its scratch folder did not."""
    for left in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*-*"):
        owner = left.name.removeprefix(SCRATCH).split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(left, ignore_errors=True)
