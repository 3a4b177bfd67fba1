"""What the Inspector reader costs at 6,000 lines a second: share of a core for each form of its lines.

Eight ranks write 770 lines a second each into files of their own; the real reader, parser and reducer take them in once
a second and the frame that comes of it is encoded. The writing is not measured. Printed is the least of several
seconds: other work on the machine only ever adds.

    python -m bench.inspector
"""

# ruff: noqa: E402 (the bench finds the project by its own place)
import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from collectors.agent.service import GC_OBJECTS
from collectors.lines import FolderLines
from collectors.nccl.collectives import Claim, CollectiveReducer, CollectivesCollector
from runtime.health import Counters
from schemas.codec import encode
from schemas.collective import CollectiveFrame

RANKS, LINES = 8, 770
SECONDS, WARM_UP = 43, 3
START_MS = 1_796_000_000_000
FORMS = ("v4.0", "v4.0 verbose", "v4.2", "v4.4 bare")
TARGET_PCT = 5.0

COMMUNICATORS = (
    ("0x1b2c3d4e5f6071", "TENSOR_MODEL_PARALLEL_GROUP", 8, ("AllReduce", "AllGather")),
    ("0x7f8c496ae9f661", "DP_GROUP_0", 64, ("ReduceScatter",)),
)


def body(form: str, function: str, sn: int, now_us: int) -> dict[str, object]:
    """The operation as NCCL's writer puts it, by form."""
    said: dict[str, object] = {"coll": function}
    if form not in ("v4.0", "v4.0 verbose"):
        said |= {"coll_algo": "RING", "coll_proto": "SIMPLE"}
    said |= {
        "coll_sn": sn,
        "coll_msg_size_bytes": 1 << 24,
        "coll_exec_time_us": 240 + sn % 17,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 69.042041,
        "coll_busbw_gbs": 103.563062,
    }
    if form == "v4.0 verbose":
        channels = range(2)
        numbers = [
            {"channel_id": c, "kernel_start_sn": 3, "kernel_stop_sn": 7, "kernel_record_sn": 5} for c in channels
        ]
        times = [
            {"channel_id": c, "kernel_start_ts": now_us - 300, "kernel_stop_ts": now_us, "kernel_record_ts": now_us}
            for c in channels
        ]
        said["event_trace_sn"] = {"coll_start_sn": 1, "coll_stop_sn": 2, "kernel_events": numbers}
        said["event_trace_ts"] = {"coll_start_ts": now_us, "coll_stop_ts": now_us, "kernel_events": times}
    return {"coll_perf": said}


def second(form: str, rank: int, number: int) -> Iterator[bytes]:
    """What one rank writes in one second: its communicators in turn, each with its own sequence numbers."""
    now_us = 1000 * (START_MS + 1000 * number)
    bare = form == "v4.4 bare"
    share = LINES // len(COMMUNICATORS) - bare
    for id_, name, size, functions in COMMUNICATORS:
        about: dict[str, object] = {
            "header": {"id": id_, "comm_name": name, "rank": rank, "n_ranks": size, "nnodes": max(1, size // 8)},
            "metadata": {
                "inspector_output_format_version": form.split()[0],
                "git_rev": "v2.30.7-1",
                "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": now_us,
                "hostname": "node-01",
                "pid": 28970 + rank,
            },
        }
        if bare:
            yield msgspec.json.encode(about | {"dump_stats": {"coll_records": share, "p2p_records": 0}})
        for i in range(share):
            function, turn = functions[i % len(functions)], i // len(functions)
            said = body(form, function, number * (share // len(functions)) + turn, now_us)
            yield msgspec.json.encode(said if bare else about | said)


def cost(form: str) -> tuple[float, int]:
    """Per cent of a core at one reading a second, and bytes of the encoded frame."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = FolderLines(folder, Counters(), "*.log", "beginning")
        reducer = CollectiveReducer(lambda process: Claim("job", process.pid - 28970))
        collector = CollectivesCollector(source, reducer)
        least, size = float("inf"), 0
        for number in range(SECONDS):
            for rank in range(RANKS):
                with (folder / f"node-01-pid{28970 + rank}.log").open("ab") as file:
                    file.write(b"".join(line + b"\n" for line in second(form, rank, number)))
            began = time.process_time()
            reading = collector.collect(START_MS + 1000 * number)
            frames = [draft for draft in reading.drafts if isinstance(draft, CollectiveFrame)]
            size = sum(len(encode(frame)) for frame in frames)
            if number >= WARM_UP:
                least = min(least, time.process_time() - began)
            if reading.missing or not any(frame.blocks for frame in frames[:1]):
                raise SystemExit(f"{form}: lines were not understood: {reading.missing}")
    return 100 * least, size


def main() -> None:
    """One line for each form."""
    gc.set_threshold(GC_OBJECTS)  # as the agent runs
    print(f"NCCL Inspector, {RANKS} ranks x {LINES} lines a second, least of {SECONDS - WARM_UP} seconds")
    for form in FORMS:
        share, size = cost(form)
        each_us = share * 1e4 / (RANKS * LINES)
        print(f"  {form:<14}{share:6.2f} % of a core  {each_us:5.2f} us a line  {share / TARGET_PCT:5.2f} of the target"
              f" ({TARGET_PCT:g} %)  frame {size} bytes")  # fmt: skip


if __name__ == "__main__":
    main()
