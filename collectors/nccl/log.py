"""What NCCL and PyTorch write into a job's log when it hangs: watchdog time-outs and NCCL WARN lines.

The formats changed from version to version; the words decide, not the place. A line that says nothing of this kind is
None. Lines carry no year and often no time.
"""

import re

from collectors.base import event
from detectors.hang.watchdog import LogLine
from schemas.event import Event

MOST = 4096
"""Characters of a line that are looked at: NCCL cuts its own at 1,024."""


LOOKS = re.compile(rb"ProcessGroupNCCL|NCCL WARN|NCCL INFO|\[rank\d+\]:\[[A-Z]\d")

_PREFIX = re.compile(r"\[rank(\d{1,7})\]:")
_CLOCK = re.compile(r"\[[A-Z](\d{3,4}) (\d\d:\d\d:\d\d)|\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\]")
_GROUP = re.compile(r"\[(PG (?:ID )?[^\]]*?)\s*Rank (\d{1,7})\]|\[Rank (\d{1,7})\]")
_WORK = re.compile(r"WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w+)(?:[^)]*?Timeout\(ms\)=(\d{1,12}))?")
_SEQ = re.compile(r"(?:at work(?: sequence id)?|at NCCL work): (\d{1,18})")
_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work:\s*(-?\d{1,18})", re.IGNORECASE)
_COMPLETED = re.compile(r"last completed (?:NCCL )?work:\s*(-?\d{1,18})", re.IGNORECASE)
_STUCK = re.compile(r"watchdog got stuck for (\d+) seconds|Heartbeat monitor timed out")
_DUMP = re.compile(r"Received a dump signal|Observed flight recorder dump signal|preparing to dump debug info")
_PLACE = re.compile(r"([\w.-]+):(\d{1,10}):\d+ \[(\d+)\] (.*)")
_INIT = re.compile(r"rank (\d{1,7}) nranks (\d{1,7}).*?commId (0x[0-9a-f]+).*Init COMPLETE")
_STATUS = re.compile(r"status=(\w+\(\d+\)|\d+)|Got completion with error (\d+)")
_PEER = re.compile(r"(?:from peer|peer) (\S+?)(?:<|\s)")
_LINK = re.compile(r"\bhca (\w+)")
_AROUND = re.compile(r"at and around rank (\d{1,7})")

WARNINGS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("mismatch", re.compile(r"Mismatched collective detected|collective mismatch error|ollective mismatch")),
    (
        "transport",
        re.compile(r"Got completion (?:from peer|with error)|ibv_modify_qp failed|Connection closed by remote"),
    ),
    ("cuda", re.compile(r"Cuda failure")),
)
"""Warnings worth catching, by what they mean."""

FLUSHED = ("5", "IBV_WC_WR_FLUSH_ERR(5)")
"""A flushed request follows from another error: no cause."""


def looks_like(start: bytes) -> bool:
    """Whether text like this is (part of) the log of a job that uses NCCL."""
    return bool(LOOKS.search(start))


def parse(line: str) -> LogLine | None:
    """What one line says of a hang, or None."""
    line = line[:MOST]
    if "ProcessGroupNCCL" in line or "WorkNCCL" in line or "atchdog" in line or "NCCL work" in line:
        return _pytorch(line)
    if "NCCL " in line:
        return _nccl(line)
    return None


def rank_of(line: str) -> int | None:
    """The global rank that wrote a line (`[rank3]:`), whatever the line says."""
    found = _PREFIX.search(line[:200])
    return int(found.group(1)) if found else None


def world_of(line: str) -> int:
    """The size of the communicator that a line says is complete; 0 where it says none."""
    found = _INIT.search(line[:MOST]) if "Init COMPLETE" in line else None
    return int(found.group(2)) if found else 0


def event_of(found: LogLine, job: str = "") -> Event:
    """The line as an event of its rank: evidence for what other detectors say of it."""
    kind = "nccl_warn" if found.what in ("warn", "init") else "nccl_watchdog"
    names = ("group", "seq", "op", "enqueued", "completed", "host", "pid", "device", "warning", "peer", "link")
    detail = {name: str(value) for name in names if (value := getattr(found, name)) not in (None, "")}
    severity = "warning" if found.what in ("timeout", "exception", "stuck", "warn") else "info"
    return event(
        kind, severity=severity, job=job, rank=found.rank, text=found.text, detail=detail | {"what": found.what}
    )


def _pytorch(line: str) -> LogLine | None:
    prefix, group, work = _PREFIX.search(line), _GROUP.search(line), _WORK.search(line)
    local = next((g for g in (group.group(2), group.group(3)) if g), None) if group else None
    seq = work or _SEQ.search(line)
    enqueued, completed = _ENQUEUED.search(line), _COMPLETED.search(line)
    if work and "timeout" in line.lower():
        what = "timeout"
    elif _STUCK.search(line):
        what = "stuck"
    elif _DUMP.search(line):
        what = "dump"
    elif enqueued:
        what = "exception"
    else:
        return None
    return LogLine(
        what,
        rank=int(prefix.group(1)) if prefix else None,
        local=int(local) if local else None,
        group=" ".join(group.group(1).split()) if group and group.group(1) else "",
        seq=int(seq.group(1)) if seq else None,
        op=work.group(2) if work else "",
        timeout_ms=int(work.group(3)) if work and work.group(3) else None,
        enqueued=int(enqueued.group(1)) if enqueued else None,
        completed=int(completed.group(1)) if completed else None,
        clock=_clock(line),
        text=line.strip()[:400],
    )


def _nccl(line: str) -> LogLine | None:
    place = _PLACE.search(line)
    if place is None:
        return None
    host, pid, device, rest = place.groups()
    common = {
        "host": host,
        "pid": int(pid),
        "device": int(device[:6]),
        "clock": _clock(line),
        "text": line.strip()[:400],
    }
    if init := _INIT.search(rest):
        return LogLine("init", local=int(init.group(1)), group=init.group(3), **common)  # type: ignore[arg-type]
    if "NCCL WARN" not in rest:
        return None
    said = rest.partition("NCCL WARN ")[2]
    warning = next((name for name, pattern in WARNINGS if pattern.search(said)), "other")
    status, peer, link, around = _STATUS.search(said), _PEER.search(said), _LINK.search(said), _AROUND.search(said)
    code = next((g for g in status.groups() if g), "") if status else ""
    if warning == "transport" and code in FLUSHED:
        warning = "flushed"
    return LogLine(
        "warn",
        local=int(around.group(1)) if around else None,
        op=code,
        warning=warning,
        peer=peer.group(1) if peer else "",
        link=link.group(1) if link else "",
        **common,  # type: ignore[arg-type]
    )


def _clock(line: str) -> str:
    """The line's own time as it stands: "0321 02:07:08" (month, day) or a date; "" where it has none."""
    found = _CLOCK.search(line)
    if not found:
        return ""
    return found.group(3) or f"{found.group(1).zfill(4)} {found.group(2)}"
