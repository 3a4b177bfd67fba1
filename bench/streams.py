"""GPUs at 1 Hz that a core of a worker keeps up with, on a real Kafka: a backlog of frames, and the CPU time it takes.

    python -m bench.streams --broker 127.0.0.1:9092 [--nodes 100] [--job-nodes 25] [--seconds 60] [--format json]

A fresh Kafka that nobody else uses; topics are made. Frames are those of `bench.baseline`, 4 GPUs with 40 metrics each.
The worker is the whole product's (`lockstep worker`): it reads, judges, sends features, reads them again for the jobs,
stores states and commits. Beside it Faust takes the same frames and does nothing (`bench.bare_faust`). CPU time counts,
not the clock: others may be at work on the machine, and a backlog leaves no idle time in it. What a live worker waits
for between ticks is not in it, so this is the most that a core can do.
"""

import argparse
import json
import subprocess
import sys
import time

from msgspec.structs import replace

from bench.baseline import frame_of, plain_frames
from bench.running import cpu_s, mib
from runtime.groups import WORKER
from runtime.health import Counters
from runtime.kafka import Producer, wait_for_broker
from runtime.kafka.offsets import Offsets
from runtime.settings import Connection
from schemas import NodeFrame
from schemas.codec import encode

GPUS = 4
TOPICS = ("node-frames", "features")
"""Each frame is read, and then what was said of its GPUs, for their job."""

WARM, ENOUGH = 0.2, 0.9
"""Time is taken between these parts of all: at first detectors are made, and the last ticks of a job wait for more."""

MOST_S = 600.0


def feed(connection: Connection, nodes: int, job_nodes: int, seconds: int) -> None:
    """Frames of all nodes, second by second, as fast as Kafka takes them; `job_nodes` of them share a job."""
    producer = Producer(connection, "bench", Counters())
    for payload in plain_frames(GPUS, seconds):
        frame = frame_of(payload)
        for number in range(nodes):
            sent = _of_node(frame, number, number // job_nodes)
            producer.send(sent.topic, sent.key, encode(sent))
        if not producer.flush(60):
            raise SystemExit("Kafka does not take the frames")
    producer.close(10)


def _of_node(frame: NodeFrame, number: int, job: int) -> NodeFrame:
    """The same readings of another node."""
    gpus = tuple(replace(gpu, uuid=f"{gpu.uuid}-{number}", job=f"slurm/{job}") for gpu in frame.gpus)
    readings = replace(frame.sections["gpu"], rows=tuple(gpu.uuid for gpu in gpus))
    host = replace(frame.sections["host"], rows=(f"n{number}",))
    return replace(frame, node=f"n{number}", gpus=gpus, sections={"gpu": readings, "host": host})


def done(offsets: Offsets) -> int:
    """Records that the worker has committed."""
    return sum(offsets.committed(WORKER, offsets.partitions(TOPICS)).values())


def reached(offsets: Offsets, records: float) -> int:
    """Wait until so many records are committed; how many are then."""
    until = time.monotonic() + MOST_S
    while (now := done(offsets)) < records:
        if time.monotonic() > until:
            raise SystemExit(f"{now} of {records:.0f} records after {MOST_S:.0f} s")
        time.sleep(0.2)
    return now


def bare(broker: str, events: int) -> float:
    """CPU microseconds in which Faust takes a frame and does nothing with it."""
    command = [sys.executable, "-m", "bench.bare_faust", "--broker", broker, "--events", str(events)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(json.loads(answer)["us_an_event"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--broker", required=True)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--job-nodes", type=int, default=25)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    connection = Connection(broker=asked.broker, cluster="bench")
    wait_for_broker(connection, 60)
    lockstep = [sys.executable, "-m", "lockstep"]
    subprocess.run([*lockstep, "topics", "create", "--broker", asked.broker], check=True, capture_output=True)
    offsets, records = Offsets(connection), len(TOPICS) * asked.nodes * asked.seconds
    if done(offsets):
        raise SystemExit("a worker has read from this Kafka before: take a fresh one")
    feed(connection, asked.nodes, asked.job_nodes, asked.seconds)
    with subprocess.Popen([*lockstep, "worker", "--broker", asked.broker, "--cluster", "bench"]) as worker:
        try:
            first, began = reached(offsets, WARM * records), cpu_s(worker.pid)
            last, ended = reached(offsets, ENOUGH * records), cpu_s(worker.pid)
            memory = mib(worker.pid)
        finally:
            worker.terminate()
    offsets.close()
    bare_us = bare(asked.broker, asked.nodes * asked.seconds)
    frames = (last - first) / len(TOPICS)
    us = (ended - began) / frames * 1e6
    found = {"us_a_frame": us, "us_a_gpu_sample": us / GPUS, "gpus_a_core": GPUS * 1e6 / us, "worker_mib": memory}
    found["bare_faust_us_a_frame"] = bare_us
    if asked.format == "json":
        print(json.dumps(found | {"frames": frames, "nodes": asked.nodes}))
        return
    print(f"{us:.0f} us of CPU a frame of {GPUS} GPUs ({us / GPUS:.1f} a GPU-sample), in {frames:.0f} frames")
    print(f"{bare_us:.0f} us where Faust takes the same frames and does nothing: {us / bare_us:.1f} times less")
    print(f"{found['gpus_a_core']:.0f} GPUs at 1 Hz a core at the most; {memory:.0f} MiB with {asked.nodes} nodes")


if __name__ == "__main__":
    main()
