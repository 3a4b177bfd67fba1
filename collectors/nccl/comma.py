"""CoMMA's latency files (Google's NCCL profiler plugin): one JSON list of operations, as trace viewers read it.

`dur` is mostly the time to enqueue; `child_dur` is what the operation took. Times are the process's own clock.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

_LOOKS = re.compile(rb'"(comm_hash|child_dur)"\s*:')

MOST_BYTES = 256 << 20


class BadTrace(ValueError):
    """The bytes are no list of CoMMA's operations; the text is one line."""


class Operation(NamedTuple):
    """One collective of one rank; `exec_time_us` and `size_bytes` are None where the line does not tell."""

    function: str
    communicator: str
    rank: int | None
    sn: int | None
    size_bytes: int | None
    exec_time_us: float | None
    enqueue_us: float | None
    start_us: float | None
    proxy_operations: int


def looks_like(start: bytes) -> bool:
    """Whether a file that starts like this is one of them."""
    return start.lstrip()[:1] in (b"[", b"{") and bool(_LOOKS.search(start))


def parse(data: bytes) -> list[Operation]:
    """The collectives in a file, whole or cut short at its end. Raises BadTrace where there is none."""
    if len(data) > MOST_BYTES:
        raise BadTrace(f"{len(data)} bytes; at most {MOST_BYTES} are read")
    text = data.strip()
    for candidate in (text, text.rstrip(b",") + b"]", text[: text.rfind(b"},{") + 1] + b"]"):
        try:
            rows = msgspec.json.decode(candidate)
            break
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    else:
        raise BadTrace("broken JSON")
    listed = rows if isinstance(rows, list) else [rows]
    found = [_operation(row) for row in listed if isinstance(row, dict) and row.get("cat") == "COLL"]
    if not found:
        raise BadTrace("no collective of CoMMA in it")
    return found


def _operation(row: Mapping[str, Any]) -> Operation:
    arguments, proxies = row.get("args"), row.get("proxyops")
    return Operation(
        str(row.get("name", ""))[:64],
        str(row.get("comm_hash", ""))[:32],
        _natural(row.get("rank")),
        _natural(row.get("seq_num")),
        _natural(arguments.get("size")) if isinstance(arguments, dict) else None,
        _time(row.get("child_dur")),
        _time(row.get("dur")),
        _time(row.get("ts")),
        len(proxies) if isinstance(proxies, list) else 0,
    )


def _natural(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else None


def _time(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18
    return float(value) if usable else None  # type: ignore[arg-type]
