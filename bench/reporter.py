"""What `lockstep.step` costs the training process: microseconds a step, with a reader, without one, and to a file.

Side by side with an empty loop of the same shape and with `json.dumps` of the same line, so that the machine's speed
cancels out.

    python bench/reporter.py [STEPS]
"""

# ruff: noqa: E402 (the bench finds the project by its own place)
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from collectors.datagrams import DatagramLines
from lockstep.reporter import Step, _Reporter
from runtime.health import Counters

LINE = {"step": 123456, "rank": 511, "ts_ms": 1_796_000_000_000, "data_us": 1234.5, "compute_us": 412000.25,
        "step_us": 413300.125, "tokens": 8192}  # fmt: skip


def each_us(steps: int, one: Callable[[], None]) -> tuple[float, float]:
    """Median and 99.9th percentile of one call in microseconds."""
    took = []
    for _ in range(steps):
        begun = time.perf_counter()
        one()
        took.append(time.perf_counter() - begun)
        time.sleep(0)  # a training step is long: others may run
    took.sort()
    return median(took) * 1e6, took[int(0.999 * len(took))] * 1e6


def stepping(reporter: _Reporter) -> Callable[[], None]:
    def one() -> None:
        with Step(reporter, {"tokens": 8192}) as step:
            with step.phase("data"):
                pass
            with step.phase("compute"):
                pass

    return one


def main(steps: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path, counters = Path(name) / "steps.sock", Counters()
        encode_us, _ = each_us(steps, lambda: json.dumps(LINE))
        rows = [("json.dumps of the line alone", (encode_us, float("nan")))]
        source = DatagramLines(path, counters)
        socket = _Reporter({"RANK": "3", "LOCKSTEP_STEPS_SOCKET": str(path)})
        rows.append(("socket, the agent reads", each_us(steps, stepping(socket))))
        received = len(source.read())
        source.close()
        rows.append(("socket, nobody there", each_us(steps, stepping(socket))))
        file = _Reporter({"RANK": "3", "LOCKSTEP_STEPS_DIR": name})
        rows.append(("file", each_us(steps, stepping(file))))
        off = _Reporter({})
        rows.append(("not configured", each_us(steps, stepping(off))))
        for reporter in (socket, file):
            reporter.leave()
    print(f"{'':32}{'median us':>12}{'p99.9 us':>12}{'of json':>10}")
    for what, (half, most) in rows:
        print(f"{what:32}{half:12.1f}{most:12.1f}{half / encode_us:9.1f}x")
    print(f"received {received} of {steps} lines")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
