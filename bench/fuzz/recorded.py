"""What `analyze` and `replay` read, as the fuzzer sees it: whole files, decoded and judged."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.fuzz import seeds
from bench.fuzz.parser import SCRATCH, Parser
from collectors.nccl.comma import BadTrace
from collectors.nccl.comma import parse as parse_comma
from collectors.nccl.nccl_tests import BadTable
from collectors.nccl.nccl_tests import parse as parse_nccl_tests
from lockstep.analyze import analyze, events
from lockstep.replay import read
from lockstep.replay.table import Columns
from runtime.errors import UserError
from schemas.codec import decode, encode


def _file(run: Callable[[Path], object], name: str = "input") -> Callable[[bytes], None]:
    """A parser of files: the input is one of that name."""

    def with_file(data: bytes) -> None:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            run(path)

    return with_file


def _analyzed(kind: str | None, samples: Sequence[bytes], limit_s: float = 10.0) -> Parser:
    """A kind of file (None: recognise it), listed and judged."""

    def run(path: Path) -> None:
        try:
            for _ in events([path], kind):
                pass
        finally:
            report = analyze([path], kind)
            report.to_text()
            report.to_json()

    return Parser(_file(run), samples, (UserError,), limit_s)


def _replayed(name: str, samples: Sequence[bytes]) -> Parser:
    def run(path: Path) -> None:
        for record in read(path, Columns(), "c", 1):
            decode(encode(record))

    return Parser(_file(run, name), samples, (UserError,), 5.0)


def _parquet() -> tuple[bytes, ...]:
    import io

    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"step": [1, 1, 2, 2], "rank": [0, 1, 0, 1], "step_us": [900.0, 901.0, 902.0, None]})
    whole = io.BytesIO()
    pyarrow.parquet.write_table(table, whole)
    return (whole.getvalue(),)


_EVERY = (
    seeds.INSPECTOR[0], seeds.STEP_TABLES[0], seeds.FLIGHT[0], seeds.RAS[0], seeds.JOB_LOG, seeds.NCCL_TESTS[0],
    seeds.INSPECTOR_METRICS[0], seeds.COMMA[0], seeds.KERNEL_LOG[0], seeds.PIPELINE[0], seeds.BATCH_TIMES[0],
    seeds.GPU_TABLES[1], seeds.DCGM[0], seeds.BUILDING[0], seeds.REDFISH[0], seeds.RECORDING,
)  # fmt: skip

RECORDED: dict[str, Parser] = {
    "nccl_tests": Parser(parse_nccl_tests, seeds.NCCL_TESTS, (BadTable,)),
    "comma": Parser(parse_comma, seeds.COMMA, (BadTrace,)),
    "analyze": _analyzed(None, seeds.packed(_EVERY)),
    "analyze/inspector": _analyzed("inspector", seeds.packed(seeds.INSPECTOR)),
    "analyze/steps": _analyzed("steps", seeds.packed(seeds.STEP_TABLES)),
    "analyze/parquet": _analyzed("steps", _parquet()),
    "analyze/flight-recorder": _analyzed("flight-recorder", seeds.FLIGHT),
    "analyze/ras": _analyzed("ras", seeds.packed(seeds.RAS)),
    "analyze/job-log": _analyzed("job-log", seeds.packed((seeds.JOB_LOG,))),
    "analyze/nccl-tests": _analyzed("nccl-tests", seeds.NCCL_TESTS),
    "analyze/inspector-metrics": _analyzed("inspector-metrics", seeds.INSPECTOR_METRICS),
    "analyze/comma": _analyzed("comma", seeds.COMMA),
    "analyze/kernel-log": _analyzed("kernel-log", seeds.packed(seeds.KERNEL_LOG)),
    "analyze/pipeline-trace": _analyzed("pipeline-trace", seeds.packed(seeds.PIPELINE)),
    "analyze/batch-times": _analyzed("batch-times", seeds.packed(seeds.BATCH_TIMES)),
    "analyze/dcgm": _analyzed("dcgm", (*seeds.GPU_TABLES, *seeds.DCGM)),
    "analyze/cooling-bms": _analyzed("cooling-bms", seeds.BUILDING),
    "analyze/redfish": _analyzed("redfish", seeds.REDFISH),
    "analyze/frames": _analyzed("frames", (seeds.RECORDING, *(seeds.frame(payload) for payload in seeds.WIRE))),
    "replay/records": _replayed("input.records", (seeds.RECORDING,)),
    "replay/csv": _replayed("input.csv", (seeds.GPU_TABLES[3],)),
    "replay/jsonl": _replayed("input.jsonl", (b'{"ts_ms":1796000000000,"node":"n1","gpu":"GPU-a","power_w":700}\n',)),
    "replay/jsonl.gz": _replayed(
        "input.jsonl.gz", seeds.packed((b'{"ts":1796000000.5,"node":"n1","load_1m":2}\n',))[1:]
    ),
}
"""Parsers of lockstep/analyze/ and lockstep/replay/, and of the formats that only these read, by kind of file."""
