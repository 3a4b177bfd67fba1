"""What the agent is measured beside: a plain nvidia-ml-py loop, and Prometheus' node exporter scraped once a second."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from collectors.gpu.fields import FIELD_METRICS

LINKS = 18
"""Of the shim's GPUs."""

PLAIN = """
import json, sys, time
from pynvml import *
asks = [tuple(ask) for ask in json.loads(sys.argv[1])]
nvmlInit()
handles = [nvmlDeviceGetHandleByIndex(i) for i in range(nvmlDeviceGetCount())]
samples = [[nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc()] for _ in handles]
for handle, (_, now) in zip(handles, samples):
    nvmlGpmSampleGet(handle, now)
while True:
    time.sleep(1 - time.time() % 1)
    for handle, pair in zip(handles, samples):
        nvmlDeviceGetFieldValues(handle, asks)
        nvmlDeviceGetTemperatureV(handle, NVML_TEMPERATURE_GPU)
        nvmlDeviceGetMarginTemperature(handle)
        nvmlDeviceGetClockInfo(handle, NVML_CLOCK_SM)
        nvmlDeviceGetClockInfo(handle, NVML_CLOCK_MEM)
        nvmlDeviceGetCurrentClocksEventReasons(handle)
        nvmlDeviceGetUtilizationRates(handle)
        nvmlDeviceGetMemoryInfo(handle)
        pair.reverse()
        nvmlGpmSampleGet(handle, pair[1])
        ask = c_nvmlGpmMetricsGet_t()
        ask.version, ask.numMetrics, ask.sample1, ask.sample2 = NVML_GPM_METRICS_GET_VERSION, 3, pair[0], pair[1]
        for i, metric in enumerate((NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_ANY_TENSOR_UTIL,
                                    NVML_GPM_METRIC_DRAM_BW_UTIL)):
            ask.metrics[i].metricId = metric
        nvmlGpmMetricsGet(ask)
"""
"""What anybody would write: the agent's fast set, asked and thrown away."""


def fast_set(generation: str) -> list[tuple[int, int]]:
    """The fields that the agent asks every second of a GPU of this generation, with their scopes."""
    asks: list[tuple[int, int]] = []
    for metric in FIELD_METRICS:
        choice = metric.alternatives[0 if generation == "hopper" else -1]
        scopes = range(LINKS) if choice.per_link else (choice.scope,)
        asks += [(field, scope) for field in choice.fields for scope in scopes]
    return asks


def plain_loop(generation: str, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """The plain loop, started."""
    command = [sys.executable, "-c", PLAIN, json.dumps(fast_set(generation))]
    return subprocess.Popen(command, env=dict(environment), stderr=subprocess.DEVNULL)


class NoExporter(Exception):
    """Why there is none on this machine."""


@contextmanager
def node_exporter(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """prometheus-node-exporter as Debian has it, scraped once a second as Prometheus does; raises NoExporter."""
    program = _program(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [program, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    stop = threading.Event()
    scraper = threading.Thread(target=_scrape, args=(f"http://127.0.0.1:{port}/metrics", stop), daemon=True)
    scraper.start()
    try:
        yield process
    finally:
        stop.set()
        scraper.join()
        process.terminate()
        process.wait(10)


def _scrape(url: str, stop: threading.Event) -> None:
    ask = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    while not stop.wait(1 - time.time() % 1):
        try:
            with urllib.request.urlopen(ask, timeout=1) as answer:
                answer.read()
        except OSError:
            continue  # it is only starting, or the machine is busy


def _program(folder: Path) -> str:
    """What is installed, else Debian's package unpacked into a cache."""
    installed = shutil.which("prometheus-node-exporter")
    if installed:
        return installed
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep-bench" / "node-exporter"
    program = cache / "usr" / "bin" / "prometheus-node-exporter"
    if program.exists():
        return str(program)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoExporter("prometheus-node-exporter is not installed")
    command = ["apt-get", "download", "-q", "prometheus-node-exporter"]
    got = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    packages = list(folder.glob("prometheus-node-exporter_*.deb"))
    if got.returncode or not packages:
        raise NoExporter("prometheus-node-exporter is not installed, and Debian's package cannot be downloaded")
    cache.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "-x", packages[0], cache], check=True, capture_output=True, timeout=60)
    return str(program)
