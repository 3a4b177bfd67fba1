"""Results of nccl-tests: the printed table (every layout, with other output mixed in) and the JSON of `-J`.

The JSON holds the whole environment of the run; it is never looked at. Times in microseconds, bandwidth in GB/s (1e9).
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from detectors.job.nccl_tests import Bench, Device, Row

MOST_BYTES = 64 << 20
MOST_TIMES = 100_000
"""Single times kept of one row: processes times iterations."""

_JSON = re.compile(rb'"(average_bus_bandwidth|out_of_place|per_iter_timing|blocking_collectives)"\s*:')
_TEXT = re.compile(rb"^#[ \t]{0,64}(nThread\s|nccl-tests version|[^\n]{0,512}\bbusbw\b)", re.M)

_START = re.compile(r"^#\s*(nccl-tests version (\S+)|nThread )")
_TEST = re.compile(r"^#\s*Collective test starting:\s*(\w+)")
_DEVICE = re.compile(
    r"^#\s+Rank\s+(\d{1,7})\s+(?:Group\s+\d+\s+)?Pid\s+(\d{1,10})\s+on\s+(\S+)\s+device\s+(\d{1,5})\s+\[(\S+)\]\s*(.*)"
)
_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d{1,18})\s*(\w*)")
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)\s*(\w*)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?")


class BadTable(ValueError):
    """The bytes are no result of nccl-tests; the text is one line."""


def looks_like(start: bytes) -> bool:
    """Whether a file that starts like this holds results of nccl-tests."""
    return bool((_JSON if start.lstrip()[:1] == b"{" else _TEXT).search(start))


def parse(data: bytes) -> list[Bench]:
    """The runs in one file. Raises BadTable where there is none."""
    if len(data) > MOST_BYTES:
        raise BadTable(f"{len(data)} bytes; at most {MOST_BYTES} are read")
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    runs = [_json(text)] if text.startswith("{") else [run for run in map(_table, _runs(text)) if run is not None]
    if not runs:
        raise BadTable("no table of nccl-tests in it")
    return runs


def _runs(text: str) -> Iterator[list[str]]:
    """The lines of each run: one begins at its version or settings line."""
    lines: list[str] = []
    rows = False
    for line in text.splitlines():
        if _START.match(line) and rows:
            yield lines
            lines, rows = [], False
        rows = rows or line.lstrip()[:1].isdigit()
        lines.append(line)
    yield lines


def _table(lines: list[str]) -> Bench | None:
    version = test = ""
    devices: list[Device] = []
    rows: list[Row] = []
    columns = ["time", "algbw", "busbw", "#wrong"] * 2
    bounds: int | None = None
    failed = False
    average: float | None = None
    for line in lines:
        if start := _START.match(line):
            version = start.group(2) or version
        elif named := _TEST.match(line):
            test = named.group(1)
        elif device := _DEVICE.match(line):
            rank, pid, host, number, bus, info = device.groups()
            devices.append(Device(int(rank), host[:128], int(pid), int(number), bus[:32], info.strip()[:64]))
        elif out := _BOUNDS.match(line):
            bounds, failed = int(out.group(1)), failed or out.group(2) == "FAILED"
        elif mean := _AVERAGE.match(line):
            average, failed = _number(mean.group(1)), failed or mean.group(2) == "FAILED"
        elif line.startswith("#") and {"busbw", "time"} <= set(names := line.lstrip("#").split()):
            columns = names[names.index("time") :]
        elif line.lstrip()[:1].isdigit():
            rows += _row(line, columns)
    if not rows and not devices:
        return None
    return Bench(test, version, tuple(devices), tuple(rows), bounds, failed, average, average is not None)


def _row(line: str, columns: list[str]) -> list[Row]:
    """Out-of-place and in-place of one line: what is between type and times (operation, root) may be left out."""
    words = _DATE.sub("", line).split()
    if len(words) < 3 + len(columns) or not words[1].isdigit() or not words[2][:1].isalpha():
        return []
    size = _number(words[0])
    values = words[-len(columns) :]
    if size is None or size < 0 or _number(values[0]) is None:
        return []
    operation = " ".join(words[3 : len(words) - len(columns)])
    starts = [i for i, name in enumerate(columns) if name == "time"]
    out = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(columns)
        named = dict(zip(columns[start:end], values[start:end], strict=True))
        time, bus = _number(named["time"]), _number(named.get("busbw"))
        wrong = _number(named.get("#wrong"))  # "error" of old tables is a deviation, not a count
        if time is not None and bus is not None:
            algorithm = _number(named.get("algbw")) or 0.0
            out.append(Row(int(size), words[2], operation, number == 1, time, algorithm, bus, wrong))
    return out


def _json(text: str) -> Bench:
    text = re.sub(r"(:|,|\[)\s*-?inf\b", r"\1null", text)
    try:
        document = json.loads(text)
        whole = True
    except (ValueError, RecursionError):
        document, whole = _cut(text), False
    listed = document.get("results")
    results = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    config = document.get("config")
    listed = config.get("devices") if isinstance(config, dict) else None
    devices = [_device(row) for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    if not results and not devices:
        raise BadTable("no result of nccl-tests in it" if whole else "broken JSON: the run died while it wrote this")
    bounds, mean = _dict(document.get("out_of_bounds")), _dict(document.get("average_bus_bandwidth"))
    errors = document.get("errors")
    rows = tuple(row for result in results for row in _result(result))
    arguments = document.get("args")
    program = str(arguments[0]) if isinstance(arguments, list) and arguments else ""
    test = next((str(r["experiment_name"]) for r in results if r.get("experiment_name")), program.rpartition("/")[2])
    count = _number(bounds.get("count"))
    return Bench(
        test[:64],
        str(document.get("nccl_version", ""))[:32],
        tuple(devices),
        rows,
        None if count is None else int(count),
        _no(bounds.get("okay")) or _no(mean.get("okay")) or bool(errors),
        _number(mean.get("bandwidth")),
        whole and "end_time" in document,
    )


def _cut(text: str) -> dict[str, Any]:
    """What stands whole in JSON that ends too early: the configuration and the first results."""
    found: dict[str, Any] = {"results": []}
    decoder = json.JSONDecoder()
    if config := re.search(r'"config"\s*:\s*', text):
        try:
            found["config"] = decoder.raw_decode(text, config.end())[0]
        except (ValueError, RecursionError):
            return found
    if results := re.search(r'"results"\s*:\s*\[', text):
        at = results.end()
        while at < len(text):
            try:
                row, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                break
            found["results"].append(row)
            while at < len(text) and text[at] in " \r\n\t,":
                at += 1
    return found


def _device(row: Mapping[str, Any]) -> Device:
    numbers = [int(_number(row.get(name)) or 0) for name in ("rank", "pid", "device")]
    words = [str(row.get(name, "")) for name in ("hostname", "device_hex", "device_info")]
    return Device(numbers[0], words[0][:128], numbers[1], numbers[2], words[1][:32], words[2][:64])


def _result(result: Mapping[str, Any]) -> list[Row]:
    out = []
    size = _number(result.get("size"))
    operation = f"{result.get('redop', '')} {str(result.get('root', '')).strip()}".strip()[:32]
    for name in ("out_of_place", "in_place"):
        said = _dict(result.get(name))
        time = _number(said.get("time"))
        time = _number(said.get("cpu_time")) if time is None else time
        bus = _number(said.get("bus_bw"))
        if size is None or size < 0 or time is None or bus is None:
            continue
        each = _dict(result.get(f"{name}_per_iter")).get("per_process_max_times_us")
        times = _times(each) if isinstance(each, list) else ()
        out.append(
            Row(
                int(size), str(result.get("type", ""))[:32], operation, name == "in_place", time,
                _number(said.get("alg_bw")) or 0.0, bus, _number(said.get("nwrong")), times,
            )
        )  # fmt: skip
    return out


def _times(rows: list[Any]) -> tuple[tuple[float, ...], ...]:
    """Per process its times, NaN where one is no number; nothing where processes differ in their count."""
    lists = [[_number(value) for value in row] for row in rows if isinstance(row, list)]
    if len({len(row) for row in lists}) != 1 or len(lists) * len(lists[0]) > MOST_TIMES:
        return ()
    return tuple(tuple(math.nan if value is None else value for value in row) for row in lists)


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _no(value: object) -> bool:
    return value is False or value == "false"


def _number(value: object) -> float | None:
    """A finite number, however it is written."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or (isinstance(value, str) and len(value) > 40)
    ):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < 1e18 else None
