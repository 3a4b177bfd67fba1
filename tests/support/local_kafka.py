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
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.ports import free_port

VERSION = "4.4.0"
USER, PASSWORD = "lockstep", "not-a-secret"
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
listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURE://localhost:{secure}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
controller.listener.names=CONTROLLER
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  user_{user}="{password}";
listener.name.secure.scram-sha-512.sasl.jaas.config=\
  org.apache.kafka.common.security.scram.ScramLoginModule required;
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


def certificate(authority: Path, server: Path) -> None:
    """Write the certificate of an authority that is `localhost` itself, and the same with its key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = signed.public_bytes(serialization.Encoding.PEM)
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    authority.write_bytes(pem)
    server.write_bytes(secret + pem)


class LocalKafka:
    """One broker; `stop` and `start` keep its ports and its data, `kill` ends it at once.

    `address` speaks plain text; `secure_address` wants TLS (trusted by the file `certificate`) and a user.
    """

    def __init__(self, folder: Path, heap_mb: int = 320) -> None:
        if shutil.which("java") is None:
            raise Unavailable("Java 17 or newer is not installed")
        self.port, self.secure_port = free_port(), free_port()
        self.address, self.secure_address = f"127.0.0.1:{self.port}", f"localhost:{self.secure_port}"
        self._folder = folder
        self.certificate, self._keystore = folder / "ca.pem", folder / "server.pem"
        self._classpath = f"{jars(cache_folder())}/*"
        self._heap = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = folder / "server.properties"
        certificate(self.certificate, self._keystore)
        self._settings.write_text(
            _PROPERTIES.format(
                port=self.port,
                secure=self.secure_port,
                controller=free_port(),
                logs=folder / "logs",
                keystore=self._keystore,
                user=USER,
                password=PASSWORD,
            ),
            encoding="utf-8",
        )
        identity, scram = uuid.uuid4().hex[:22], f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
        self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._settings), "--add-scram", scram)

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

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

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
def local_kafka() -> Iterator[LocalKafka]:
    """A running broker with its own scratch folder, both gone afterwards; raises Unavailable."""
    _sweep()
    with tempfile.TemporaryDirectory(prefix=f"{SCRATCH}{os.getpid()}-") as folder:
        broker = LocalKafka(Path(folder))
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
