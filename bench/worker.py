"""What the events of a rack cost in a worker's partitions: microseconds each, side by side with the detectors alone.

Decoding and the encoding of what is sent are in it, Faust and the broker are not.

python bench/worker.py
"""

import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from detectors.node.detector import NodeDetector
from lockstep.fleet import Agents
from runtime.deadletters import dead_letter
from runtime.health import Counters
from schemas import NodeFrame, Record
from schemas.codec import decode, encode
from schemas.topics import JOB_TOPICS
from simulator.fleet import SimulatedFleet
from simulator.settings import FleetSettings
from streams.acknowledge import Offsets, Token
from streams.partition import EventTime, Partition, Surroundings
from streams.places import Places
from streams.plan import detection, load_model

START_MS = 1_700_000_000_000
WARM_UP, MEASURED = 60, 60


class Fed:
    """A partition that gets its events as an agent gives them, and what it sends."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._offsets: dict[str, Offsets] = {}
        self.sent: list[Record] = []
        self.best_us = float("inf")

    def take(self, records: list[Record], measured: bool) -> None:
        raw = [(record.topic, encode(record)) for record in records]
        self.sent.clear()
        began = time.perf_counter()
        for topic, payload in raw:
            offsets = self._offsets.setdefault(topic, Offsets())
            offset = offsets.next
            offsets.take(offset)
            for step in self._partition.take(decode(payload, topic), Token(offsets, topic, 0, offset), 0.0):
                for record in (*step.outputs, *step.findings):
                    encode(record)
                    self.sent.append(record)
                for token in step.tokens:
                    token.finish()
        if measured:
            self.best_us = min(self.best_us, (time.perf_counter() - began) / len(raw) * 1e6)


def ticks(count: int) -> list[list[Record]]:
    """What the agents of one rack send, tick by tick: 18 nodes of 4 GPUs, one job on all of them."""
    fleet = SimulatedFleet(FleetSettings(racks=1, job_size=72, start_ms=START_MS), "bench", START_MS)
    with TemporaryDirectory() as folder:
        agents = Agents(fleet, "bench", 1, Path(folder), Counters())
        return [list(agents.tick()) for _ in range(count)]


def main() -> None:
    model = load_model("")
    around = Surroundings(
        Counters(),
        EventTime(),
        Places(),
        lambda token, record, reason, detail: dead_letter("c", "w", ("t", 0, 0), reason, detail, b"", 1),
        lambda topic: False,
        60_000,
    )
    plan = detection(model)
    node, job = (Fed(plan[name][1](0, {}, around)) for name in ("node", "job"))
    alone: dict[str, NodeDetector] = {}
    alone_us = float("inf")
    for number, records in enumerate(ticks(WARM_UP + MEASURED)):
        measured = number >= WARM_UP
        frames = [record for record in records if isinstance(record, NodeFrame)]
        node.take(list(frames), measured)
        job.take([record for record in (*records, *node.sent) if record.topic in JOB_TOPICS], measured)
        detectors = [alone.setdefault(f.node, NodeDetector("bench", f.node, model)) for f in frames]
        began = time.perf_counter()
        for detector, frame in zip(detectors, frames, strict=True):
            detector.update(frame)
        if measured:
            alone_us = min(alone_us, (time.perf_counter() - began) / len(frames) * 1e6)
    print(f"streams.node: {node.best_us:.0f} us a frame of 4 GPUs, {node.best_us / alone_us:.2f} times its detector")
    print(f"streams.job: {job.best_us:.0f} us an event of a job of 72 ranks")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, the simulated rack in it")


if __name__ == "__main__":
    main()
