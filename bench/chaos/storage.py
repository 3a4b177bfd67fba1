"""Random deaths of the writer, of the roller in it and of the engine, under load: the tables equal what was produced.

    python -m bench.chaos storage [--kills 200] [--seed 1] [--kill-engine 0.1]

A topic of samples, steps, events and incidents, with records that come twice, late, out of order and days old, is
written by the product's own writer and roller in a process that is killed (SIGKILL) after a random time, again and
again; now and then the engine is killed instead, and now and then the committed position is set back, as after a
restored broker. In the end count(), sums and every roll-up are compared with what Python computes from the records.
Exit status 1 where they differ. The topic is in memory (its position is a file): deaths between Kafka and the writer
are what `tests/storage/test_service.py` is about.
"""

import argparse
import contextlib
import multiprocessing
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from clickhouse_connect.driver.exceptions import Error

from runtime.clock import SystemClock
from runtime.files import write_whole
from runtime.health import Counters, HealthReporter
from runtime.ports import free_port
from runtime.settings import ClickHouse
from schemas import Event, Incident, NodeFrame, Record, StepFrame
from schemas.codec import encode
from schemas.examples import EXAMPLES
from schemas.frame import Gpu
from schemas.matrix import Matrix
from schemas.step import RankStep
from storage.client import Client, StorageUnreachable, get_client
from storage.migrate import migrate
from storage.roll import Roller
from storage.rollups import ROLLUPS
from storage.writer import Limits, Writer

ROOT = Path(__file__).resolve().parents[2]
TICK = 1_800_000_000_000
DAY_MS = 86_400_000
NODES, GPUS = 4, 2
CHECKED = ("gpu_10s", "gpu_1m", "gpu_1h", "steps_1m", "steps_1h")
_INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))


class Message(NamedTuple):
    """A message of the topic in memory."""

    topic: str
    partition: int
    offset: int
    value: bytes
    timestamp_ms: int


def records(seed: int, ticks: int) -> list[Record]:
    """What is produced: every record at least once, one in ten twice, one in twenty late, one in fifty days old."""
    chance, made = random.Random(seed), list[Record]()
    for seq in range(ticks):
        for n in range(NODES):
            old_ms = 2 * DAY_MS if chance.random() < 0.02 else 0
            base: dict[str, Any] = {
                "cluster": "chaos",
                "ts_ms": TICK + 1000 * seq - old_ms,
                "node": f"n{n}",
                "run_id": 1,
                "seq": seq,
            }
            uuids = [f"GPU-{n}-{g}" for g in range(GPUS)]
            power = [[float(chance.randint(300, 900))] for _ in uuids]
            gpus = tuple(Gpu(uuid=uuid, slot=g, job="j", rank=n * GPUS + g) for g, uuid in enumerate(uuids))
            made.append(NodeFrame(**base, gpus=gpus, sections={"gpu": Matrix.of(uuids, ["power_w"], power)}))
            step = RankStep(rank=n, step=seq, step_us=float(chance.randint(100, 200)), work=8.0)
            made.append(StepFrame(**base, job="j", steps=(step,)))
            if chance.random() < 0.05:
                made.append(Event(**base, kind="xid", code=63, boot_id="b", kmsg_seq=seq))
        if seq % 20 == 0:
            made.append(msgspec.structs.replace(_INCIDENT, cluster="chaos", id="i", revision=seq))
    places = [
        (place + (chance.randint(0, 400) if chance.random() < 0.05 else 0), record)
        for place, record in enumerate(made)
        for _ in range(2 if chance.random() < 0.1 else 1)
    ]
    return [record for _, record in sorted(places, key=lambda one: one[0])]


def truth(made: Sequence[Record]) -> dict[str, Any]:
    """What the tables must hold: counts, sums, and each roll-up's rows."""
    once = {(type(record), record.identity): record for record in made}.values()
    power: dict[tuple[str, int], float] = {}
    steps: dict[tuple[int, int], float] = {}
    found: dict[str, Any] = {"events": 0, "incidents": 0}
    windows: dict[str, dict[tuple[Any, int], list[float]]] = {name: {} for name in CHECKED}
    for record in once:
        found["events"] += isinstance(record, Event)
        found["incidents"] += isinstance(record, Incident)
        values: list[tuple[str, Any, float]] = []
        if isinstance(record, NodeFrame):
            readings = record.sections["gpu"].values()[:, 0]
            for gpu, value in zip(record.gpus, readings, strict=True):
                power[gpu.uuid, record.seq] = float(value)
                values.append(("gpu", gpu.uuid, float(value)))
        if isinstance(record, StepFrame):
            for step in record.steps:
                steps[step.rank, step.step] = step.step_us
                values.append(("steps", step.rank, step.step_us))
        for family, key, value in values:
            for name in CHECKED:
                if name.startswith(f"{family}_"):
                    start = record.ts_ms // 1000 // ROLLUPS[name].width_s * ROLLUPS[name].width_s
                    windows[name].setdefault((key, start), []).append(value)
    found["gpu_samples"] = (len(power), sum(power.values()))
    found["steps"] = (len(steps), sum(steps.values()))
    for name, held in windows.items():
        found[name] = {
            place: (len(v), round(float(np.float32(np.mean(v))), 2), min(v), max(v)) for place, v in held.items()
        }
    return found


def stored(client: Client) -> dict[str, Any]:
    """What the tables do hold, in the same words."""
    found: dict[str, Any] = {
        name: int(client.query(f"SELECT count() FROM {name} FINAL").result_rows[0][0])
        for name in ("events", "incidents")
    }
    for name, column in (("gpu_samples", "power_w"), ("steps", "step_us")):
        found[name] = client.query(f"SELECT count(), sum({column}) FROM {name} FINAL").result_rows[0]
    for name in CHECKED:
        key, column = ("gpu", "power_w") if name.startswith("gpu") else ("rank", "step_us")
        rows = client.query(
            f"SELECT {key}, toUnixTimestamp(ts), samples, round({column}, 2), {column}_min, {column}_max"
            f" FROM {name} FINAL"
        ).result_rows
        assert len({row[:2] for row in rows}) == len(rows), f"{name}: a window is there twice"
        found[name] = {(row[0], row[1]): (row[2], round(row[3], 2), *row[4:]) for row in rows}
    return found


class _Topic:
    """The consumer of the topic in memory; its position is a file, so that it outlives a death."""

    def __init__(self, made: Sequence[Record], position: Path) -> None:
        self._log = [Message(r.topic, 0, n, encode(r), r.ts_ms) for n, r in enumerate(made)]
        self._file = position
        self._position = committed(position)

    def poll(self, max_records: int, timeout_s: float) -> list[Message]:
        found = self._log[self._position : self._position + min(max_records, 40)]
        self._position += len(found)
        if not found:
            time.sleep(min(timeout_s, 0.05))
        return found

    def position(self) -> int:
        return self._position

    def commit(self, position: int) -> None:
        write_whole(self._file, str(position).encode())


class _Silent:
    """A producer for health records that nobody reads here."""

    def send(self, topic: str, key: str, value: bytes, on_done: Any = None) -> None:
        if on_done is not None:
            on_done(None)

    def flush(self, timeout_s: float) -> bool:
        return True


def committed(position: Path) -> int:
    return int(position.read_text()) if position.exists() else 0


def life(clickhouse: ClickHouse, seed: int, ticks: int, position: Path) -> None:
    """One life of a writer with its roller, until it is killed."""
    clock, counters = SystemClock(), Counters()
    threading.Thread(target=_roll, args=(clickhouse,), daemon=True).start()
    client = _client(clickhouse)
    health = HealthReporter("chaos", "writer", "0", 1, counters, clock)
    limits = Limits(batch_rows=150, batch_s=0.05, retry_s=0.05, retry_longest_s=0.2)
    topic = _Topic(records(seed, ticks), position)
    Writer(topic, _Silent(), client, "chaos", health, counters, clock, limits).run(threading.Event())


def _client(clickhouse: ClickHouse) -> Client:
    while True:
        try:
            return get_client(clickhouse)
        except StorageUnreachable:
            time.sleep(0.05)


def _roll(clickhouse: ClickHouse) -> None:
    client = _client(clickhouse)
    while True:
        with contextlib.suppress(Error):
            Roller(client, {name: ROLLUPS[name] for name in CHECKED}).roll_all()


class Engine:
    """The embedded engine in a process, on a port that stays."""

    def __init__(self, folder: Path) -> None:
        self.port, self._folder = free_port(), folder
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "storage.engine", "--data", str(self._folder), "--port", str(self.port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Report(NamedTuple):
    """What one run came to. `wrong` names what differs, with a few of the differences."""

    writer_kills: int
    engine_kills: int
    set_back: int
    messages: int
    windows: int
    seconds: float
    wrong: dict[str, str]


def run(folder: Path, kills: int, seed: int, kill_engine: float = 0.1, ticks: int | None = None) -> Report:
    """Kill `kills` times, let the rest be written in peace, compare."""
    ticks = ticks or max(40, 3 * kills)
    chance, began = random.Random(seed), time.monotonic()
    made, position = records(seed, ticks), folder / "position"
    deaths = {"writer": 0, "engine": 0, "back": 0}
    # Children of a server that has imported everything: a life begins in a hundredth of a second.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.chaos.storage"])
    with Engine(folder / "engine") as engine:
        clickhouse = ClickHouse(clickhouse_port=engine.port, clickhouse_database="chaos")
        with contextlib.closing(_client(msgspec.structs.replace(clickhouse, clickhouse_database="default"))) as client:
            migrate(client, "chaos")
        for _ in range(kills):
            writer = context.Process(target=life, args=(clickhouse, seed, ticks, position), daemon=True)
            writer.start()
            time.sleep(chance.uniform(0.05, 0.8))
            if chance.random() < kill_engine:
                engine.kill()
                engine.start()
                deaths["engine"] += 1
                time.sleep(chance.uniform(0.05, 1.5))
            writer.kill()
            writer.join()
            deaths["writer"] += 1
            if chance.random() < 0.2:
                write_whole(position, str(max(0, committed(position) - chance.randint(0, 200))).encode())
                deaths["back"] += 1
        _finish(context, clickhouse, seed, ticks, position, len(made))
        with contextlib.closing(get_client(clickhouse)) as client:
            Roller(client, {name: ROLLUPS[name] for name in CHECKED}).roll_all()
            expected, found = truth(made), stored(client)
    wrong = {name: _difference(expected[name], found[name]) for name in expected if expected[name] != found[name]}
    windows = sum(len(expected[name]) for name in CHECKED)
    return Report(
        deaths["writer"], deaths["engine"], deaths["back"], len(made), windows, time.monotonic() - began, wrong
    )


def _finish(context: Any, clickhouse: ClickHouse, seed: int, ticks: int, position: Path, end: int) -> None:
    writer = context.Process(target=life, args=(clickhouse, seed, ticks, position), daemon=True)
    writer.start()
    deadline = time.monotonic() + 600
    while committed(position) < end:
        if not writer.is_alive() or time.monotonic() > deadline:
            raise RuntimeError(f"the last writer stopped at {committed(position)} of {end}")
        time.sleep(0.05)
    writer.kill()
    writer.join()


def _difference(expected: Any, found: Any) -> str:
    if not isinstance(expected, Mapping):
        return f"expected {expected}, found {found}"
    places = [place for place in {*expected, *found} if expected.get(place) != found.get(place)]
    shown = "; ".join(f"{p}: expected {expected.get(p)}, found {found.get(p)}" for p in sorted(places, key=str)[:3])
    return f"{len(places)} of {len(expected)} windows differ: {shown}"


def main(arguments: Sequence[str]) -> int:
    """Run and print; 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos storage")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-engine", type=float, default=0.1, help="share of the kills that are the engine's too")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="lockstep-chaos-") as folder:
        report = run(Path(folder), given.kills, given.seed, given.kill_engine)
    print(
        f"{report.writer_kills} kills of the writer, {report.engine_kills} of the engine, position set back "
        f"{report.set_back} times; {report.messages} messages, {report.windows} windows of roll-ups, "
        f"{report.seconds:.0f} s"
    )
    for name, text in report.wrong.items():
        print(f"WRONG {name}: {text}")
    if not report.wrong:
        print("count(), sums and every roll-up equal what was produced")
    return 1 if report.wrong else 0
