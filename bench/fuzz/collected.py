"""What a node's agent reads, as the fuzzer sees it: lines, files of the kernel, pages and answers of others."""

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.fuzz import seeds
from bench.fuzz.parser import SCRATCH, Parser
from collectors import cursor
from collectors.agent.settings import AgentSettings
from collectors.agent.spool import Spool, next_run_id
from collectors.base import Collector, CollectorError, NoData, Reading
from collectors.cooling import bms_points
from collectors.cooling.bms import CoolingBmsCollector, recorded
from collectors.cooling.redfish import frames as rack_frames
from collectors.cooling.redfish_http import Client, RedfishError
from collectors.cooling.redfish_parse import parse as parse_redfish
from collectors.cooling.redfish_poll import Found
from collectors.cooling.redfish_targets import Target, load
from collectors.cooling.redfish_tree import look
from collectors.gpu.dcgm import DcgmCollector, DcgmXids
from collectors.gpu.printed import printed
from collectors.host.collector import HostCollector
from collectors.host.fabric import CLASS as FABRIC
from collectors.host.fabric import FabricCollector
from collectors.host.hwmon import CLASS as HWMON
from collectors.host.hwmon import HwmonCollector
from collectors.host.rank_states import RankStatesCollector
from collectors.job.devices import gpu_of
from collectors.job.mapping import read_mapping
from collectors.job.processes import Processes, Work
from collectors.job.steps import StepsCollector
from collectors.kernel.kmsg import KernelLogCollector
from collectors.kernel.log import malformed
from collectors.kernel.log_line import parse_log_line
from collectors.nccl import log as nccl_log
from collectors.nccl import ras_client
from collectors.nccl.collectives import CollectiveReducer, CollectivesCollector
from collectors.nccl.flight_recorder import parse as parse_flight
from collectors.nccl.inspector_metrics import means
from collectors.nccl.job_logs import JobLogsCollector
from collectors.nccl.plain_pickle import Refused, loads
from collectors.nccl.ras import BadRas
from collectors.nccl.ras import parse as parse_ras
from collectors.prometheus_text import parse as parse_prometheus
from runtime.errors import UserError
from runtime.health import Counters
from runtime.notify import Manager
from runtime.settings import from_environment
from schemas.codec import WireError, decode, encode, to_json
from schemas.record import NodeRecord

TICK_MS = 1_796_000_000_000


class _Clock:
    """A second goes by from look to look."""

    def __init__(self) -> None:
        self._now = 5000.0

    def now_ms(self) -> int:
        return TICK_MS

    def monotonic(self) -> float:
        self._now += 1.0
        return self._now

    def sleep(self, seconds: float) -> None: ...


class _Lines:
    """A LineSource with these lines, once."""

    def __init__(self, data: bytes) -> None:
        self._lines = [("rank-pid7.log", line) for line in data.split(b"\n")]

    def read(self) -> list[tuple[str, bytes]]:
        lines, self._lines = self._lines, []
        return lines


def sent(drafts: Iterable[NodeRecord]) -> None:
    """Every draft as it would be sent, and read at the other end: what is collected must be a record."""
    for draft in drafts:
        decode(encode(replace(draft, cluster="c", node="n", run_id=1, ts_ms=draft.ts_ms or TICK_MS)))


def _collected(collector: Collector, ticks: int = 2) -> None:
    """Some ticks of a collector. What it says of a subject that does not answer is no fault of it."""
    for number in range(ticks):
        try:
            reading = collector.collect(TICK_MS + 1000 * number)
        except NoData:
            continue
        except CollectorError as error:
            reading = error.partial or Reading()
        msgspec.msgpack.encode(reading.sections)
        sent(reading.drafts)


def _of_lines(make: Callable[[_Lines], Collector]) -> Callable[[bytes], None]:
    return lambda data: _collected(make(_Lines(data)))


def _written(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _of_files(files: dict[str, bytes], inside: str, look: Callable[[Path], object]) -> Callable[[bytes], None]:
    """A parser of several small files: they are in folder `inside` of the root that `look` is given."""

    def run(data: bytes) -> None:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            _written(Path(folder) / inside, seeds.parted(files, data))
            look(Path(folder))

    return run


def _ranks() -> dict[int, Work]:
    return {7: Work("job", 3)}


def _kernel(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        mark = Path(folder) / "mark"
        mark.write_bytes(data[: cursor.WIDTH])
        _collected(KernelLogCollector(_Lines(data), "boot", _Clock(), mark))


def _log_lines(data: bytes) -> None:
    for line in data.decode("utf-8", "replace").split("\n"):
        found = parse_log_line(line, TICK_MS)
        malformed(found.text)


def _job_log_lines(data: bytes) -> None:
    for line in data.decode("utf-8", "replace").split("\n"):
        nccl_log.rank_of(line)
        nccl_log.world_of(line)
        found = nccl_log.parse(line)
        if found is not None:
            sent([nccl_log.event_of(found)])


def _dcgm(data: bytes) -> None:
    pages = iter(data.decode("utf-8", "replace").partition(seeds.SEPARATOR.decode())[::2])
    gpus = DcgmCollector(lambda: next(pages), _Clock())
    _collected(gpus)
    _collected(DcgmXids(gpus), 1)


def _redfish(data: bytes) -> None:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # as the client does
        return
    look(document, "/redfish/v1/x")
    target = Target("bmc", "https://h", "node", "rack", None, None, "", 5.0)
    sent(rack_frames([Found(target, tuple(parse_redfish(document, "/redfish/v1/x")))]))


class _Answered(Client):
    """A client whose connection holds the answer already."""

    def __init__(self, data: bytes) -> None:
        super().__init__("http://h", None, None)
        self._data = data

    async def _connected(self) -> tuple[Any, Any]:
        reader = asyncio.StreamReader()
        reader.feed_data(self._data)
        reader.feed_eof()
        return reader, _Nowhere()


class _Nowhere:
    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...


def _http(data: bytes) -> None:
    asyncio.run(_Answered(data).get("/redfish/v1/"))


def _targets(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=SCRATCH, suffix=".toml") as file:
        Path(file.name).write_bytes(data)
        load(Path(file.name), "r01", {"WORD": "-"})


def _building(data: bytes) -> None:
    lines = data.decode("utf-8", "replace").split("\n")
    for _, frames in recorded(lines, lambda _: None):
        sent(frames)
    bms_points.offset_ms(lines[0])
    _collected(CoolingBmsCollector(_Lines(data)))


def _processes(root: Path) -> None:
    processes = Processes(root, "c")
    for _ in range(2):
        ranks = processes.ranks()
        processes.told(7)
        processes.seen_as(7, "1")
    _collected(RankStatesCollector(root, "n", lambda: ranks, _Clock()))
    gpu_of(processes.environment(7), ["GPU-a", "GPU-b"], ["MIG-c"])


def _environment(data: bytes) -> None:
    pairs = (line.partition("=") for line in data.decode("utf-8", "surrogateescape").split("\n"))
    environment = {name: value for name, sign, value in pairs if sign and "\0" not in value}
    Manager({"NOTIFY_SOCKET": environment.get("NOTIFY_SOCKET", "")}).alive("a word")
    from_environment(AgentSettings, environment)


def _address(data: bytes) -> None:
    ras_client.address(data.decode("utf-8", "replace"))


def _printed(data: bytes) -> None:
    for word in data.decode("utf-8", "replace").split("\n"):
        printed(word)


def _wire(data: bytes) -> None:
    to_json(decode(data))


def _spool(data: bytes) -> None:
    """A spool that a disk damaged: it opens, tells what it can, and takes more."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        folder, mark = Path(name), data[: cursor.WIDTH]
        _written(folder, {"00000000000000000000.spool": data, "position": mark, "run_id": mark})
        next_run_id(folder, TICK_MS)
        spool = Spool(folder, 1 << 20, Counters())
        spool.append("t", "k", b"v")
        spool.read(spool.delivered, 100)
        spool.close()


def _spooled() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        spool = Spool(Path(name), 1 << 20, Counters())
        for payload in seeds.WIRE[:5]:
            spool.append("node-frames", "n1", payload)
        spool.close()
        return next(Path(name).glob("*.spool")).read_bytes()


def _step_samples() -> tuple[bytes, ...]:
    return (*seeds.STEP_LINES, b"\n".join(seeds.STEP_LINES))


COLLECTED: dict[str, Parser] = {
    "nccl": Parser(_of_lines(lambda lines: CollectivesCollector(lines, CollectiveReducer())), seeds.INSPECTOR),
    "inspector_metrics": Parser(lambda data: list(means(data.decode("utf-8", "replace"))), seeds.INSPECTOR_METRICS),
    "prometheus_text": Parser(lambda data: parse_prometheus(data.decode("utf-8", "replace")), seeds.DCGM),
    "dcgm": Parser(_dcgm, (*seeds.DCGM, seeds.SEPARATOR.join(seeds.DCGM * 2))),
    "printed": Parser(_printed, (b"401.22 W\n[N/A]\nERR!\n0x00ff\n9223372036854775794\n61 \xc2\xb0C",)),
    "kernel": Parser(_kernel, (seeds.KMSG,)),
    "log_line": Parser(_log_lines, seeds.KERNEL_LOG),
    "nccl_log": Parser(_job_log_lines, (seeds.JOB_LOG,)),
    "job_logs": Parser(_of_lines(lambda lines: JobLogsCollector(lines, _ranks)), (seeds.JOB_LOG,)),
    "ras": Parser(lambda data: parse_ras(data), seeds.RAS, (BadRas,)),
    "ras_address": Parser(_address, (b"localhost:28028", b"[::1]:28028"), (ValueError,)),
    "plain_pickle": Parser(loads, seeds.PICKLES, (Refused,)),
    "flight_recorder": Parser(lambda data: parse_flight(data, "rank_3"), seeds.FLIGHT, (Refused,)),
    "steps": Parser(_of_lines(StepsCollector), _step_samples()),
    "redfish": Parser(_redfish, seeds.REDFISH),
    "redfish_http": Parser(_http, seeds.HTTP, (RedfishError,)),
    "redfish_targets": Parser(_targets, seeds.TARGETS, (UserError,)),
    "cooling_bms": Parser(_building, seeds.BUILDING, limit_s=5.0),
    "host": Parser(
        _of_files(seeds.HOST, "", lambda root: _collected(HostCollector(root, "n", _Clock()))),
        (seeds.joined(seeds.HOST),),
    ),
    "hwmon": Parser(
        _of_files(seeds.HWMON, f"{HWMON}/hwmon0", lambda root: _collected(HwmonCollector(root, "n"))),
        (seeds.joined(seeds.HWMON),),
    ),
    "fabric": Parser(
        _of_files(seeds.PORT, f"{FABRIC}/mlx5_0", lambda root: _collected(FabricCollector(root, _Clock()))),
        (seeds.joined(seeds.PORT),),
    ),
    "processes": Parser(_of_files(seeds.PROCESS, "7", _processes), (seeds.joined(seeds.PROCESS),)),
    "job_mapping": Parser(_of_files({"0": b"", "1": b"", "3": b""}, "", read_mapping), (b"71\n", *seeds.MAPPING)),
    "settings": Parser(_environment, seeds.ENVIRONMENT, (UserError,)),
    "wire": Parser(_wire, seeds.WIRE, (WireError,)),
    "spool": Parser(_spool, (_spooled(),)),
}
"""Parsers of collectors/, runtime/ and schemas/, by module."""
