"""The same series in Prometheus and VictoriaMetrics: how much disk they take, and the questions that they can answer.

Debian's packages `prometheus` (with promtool) and `victoria-metrics`, as found on the PATH; what is not there is left
out and said so. Both are given the four metrics of `gpu_days.SHARED`, and time is the server's processor time a
question: clocks say little on a machine that others use too.
"""

import contextlib
import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.gpu_days import GPUS, SECONDS, SHARED, START_MS, node, series
from runtime.ports import free_port

END_S = START_MS // 1000 + SECONDS

QUESTIONS = {
    "mean power a minute, all": ("avg(avg_over_time(power_w[1m]))", 60),
    "one GPU's power, a minute": ('avg_over_time(power_w{gpu="GPU-7"}[1m])', 60),
    "hottest ten of the day": (f"topk(10, max_over_time(temperature_c[{SECONDS}s]))", 0),
    "seconds below full clock": (f"sum_over_time((sm_clock_mhz < bool 1980)[{SECONDS}s:1s])", 0),
    "last value of every GPU": ("power_w", 0),
}
"""A question in words; in PromQL, and its step in seconds over the day (0: asked once, at its end)."""

OURS = {
    "mean power a minute, all": "SELECT toStartOfMinute(ts) AS t, avg(power_w) FROM gpu_samples FINAL GROUP BY t",
    "one GPU's power, a minute": "SELECT toStartOfMinute(ts) AS t, avg(power_w) FROM gpu_samples FINAL"
    " WHERE cluster = 'bench' AND node = 'n1' AND gpu = 'GPU-7' GROUP BY t",
    "hottest ten of the day": "SELECT gpu, max(temperature_c) AS t FROM gpu_samples FINAL GROUP BY gpu"
    " ORDER BY t DESC LIMIT 10",
    "seconds below full clock": "SELECT gpu, countIf(sm_clock_mhz < 1980) FROM gpu_samples FINAL GROUP BY gpu",
    "last value of every GPU": "SELECT node, gpu, argMax(power_w, (run_id, seq)) FROM gpu_samples"
    " WHERE stored_at > (SELECT max(stored_at) FROM gpu_samples) - INTERVAL 5 MINUTE GROUP BY cluster, node, gpu",
}


class Peer(NamedTuple):
    """What came of one database: bytes a value, and seconds of its processor for each question."""

    name: str
    bytes_a_value: float
    spent_s: dict[str, float]


def compare(folder: Path, cpu_s: Callable[[int], float]) -> Iterator[Peer | str]:
    """Each peer in turn, or why it is left out."""
    for name, programs, run in (
        ("Prometheus", ("prometheus", "promtool"), _prometheus),
        ("VictoriaMetrics", ("victoria-metrics",), _victoria),
    ):
        missing = [program for program in programs if shutil.which(program) is None]
        if missing:
            yield f"{name} left out: {' and '.join(missing)} not installed"
            continue
        data = folder / name
        with run(data) as (pid, port):
            size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
            spent = {words: _asked(port, pid, *asked, cpu_s) for words, asked in QUESTIONS.items()}
        yield Peer(name, size / (GPUS * SECONDS * len(SHARED)), spent)


def _asked(port: int, pid: int, query: str, step: int, cpu_s: Callable[[int], float], times: int = 10) -> float:
    given = {"query": query, "nocache": "1"}
    given |= (
        {"start": str(END_S - SECONDS), "end": str(END_S - 1), "step": str(step)} if step else {"time": str(END_S - 1)}
    )
    url = f"http://127.0.0.1:{port}/api/v1/{'query_range' if step else 'query'}?{urllib.parse.urlencode(given)}"
    before = cpu_s(pid)
    for _ in range(times):
        with urllib.request.urlopen(url, timeout=300) as answer:
            found = json.load(answer)["data"]["result"]
    assert found, f"no answer to {query}"
    return (cpu_s(pid) - before) / times


@contextlib.contextmanager
def _served(command: list[str], port: int, ready: str) -> Iterator[tuple[int, int]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=5):
                break
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command[0]} did not start")
            time.sleep(0.2)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def _prometheus(data: Path) -> Iterator[tuple[int, int]]:
    data.mkdir(parents=True)
    text = data.with_suffix(".openmetrics")
    with text.open("w") as out:
        for metric in SHARED:
            out.write(f"# TYPE {metric} gauge\n")
            for gpu in range(GPUS):
                head = f'{metric}{{node="{node(gpu)}",gpu="GPU-{gpu}"}}'
                at = START_MS // 1000
                values = series(gpu, metric).tolist()
                out.write("".join([f"{head} {value:.6g} {at + n}\n" for n, value in enumerate(values)]))
        out.write("# EOF\n")
    subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    text.unlink()
    port = free_port()
    settings = data.with_suffix(".yml")
    settings.write_text("{}\n")
    command = ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={data}",
               "--storage.tsdb.retention.time=10y", f"--web.listen-address=127.0.0.1:{port}",
               "--query.max-samples=100000000"]  # fmt: skip
    with _served(command, port, "/-/ready") as served:
        yield served


@contextlib.contextmanager
def _victoria(data: Path) -> Iterator[tuple[int, int]]:
    port = free_port()
    command = ["victoria-metrics", f"-storageDataPath={data}", f"-httpListenAddr=127.0.0.1:{port}",
               "-retentionPeriod=100y", "-search.latencyOffset=0s", "-search.disableCache",
               "-search.maxPointsPerTimeseries=100000"]  # fmt: skip
    with _served(command, port, "/health") as served:
        times = [START_MS + 1000 * n for n in range(SECONDS)]
        for metric in SHARED:
            for gpu in range(GPUS):
                labels = {"__name__": metric, "node": node(gpu), "gpu": f"GPU-{gpu}"}
                values = [float(f"{value:.6g}") for value in series(gpu, metric).tolist()]
                body = json.dumps({"metric": labels, "values": values, "timestamps": times}).encode()
                request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/import", body, method="POST")
                urllib.request.urlopen(request, timeout=120).close()
        for path in ("/internal/force_flush", "/internal/force_merge"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=120).close()
        time.sleep(5)  # the merge is asked for, not waited for
        yield served
