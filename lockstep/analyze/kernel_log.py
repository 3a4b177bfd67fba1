"""Kernel logs of any form: dmesg, syslog, journald, /dev/kmsg records, container logs, the fabric manager's log.

Lines with a moment are judged in its order, over all files; a log that knows only seconds since boot is judged alone.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from collectors.base import event
from collectors.kernel.log import INTERESTING, TOGETHER_S, KernelEvent, KernelLines, malformed
from collectors.kernel.log_line import LogLine, parse_log_line
from detectors.incident.book import CONFIRM_MS
from lockstep.analyze.files import lines
from lockstep.analyze.recording import TICK_MS, Input, Progress, Run
from lockstep.analyze.steps import ONLY_NODE
from schemas.event import Event

JOB = "kernel-log"

NUMBERS = frozenset(
    (
        "link", "sub_code", "xc", "instance", "intrinfo", "error_status", "pid", "switch", "recovery", "from", "index",
        "waited_s", "gpc", "tpc", "sm", "module", "queue", "power_w", "cpu", "seconds", "every", "count", "follows",
        "gpu_instance",
    )
)  # fmt: skip
"""Details that are numbers wherever they are (the name of a network link stays text)."""

OF_GPU = ("xid", "gpu_lost", "gpu_init_failed", "nvrm_rate_limited")
"""Events whose PCI address is a GPU's."""

SETTLED_MS = CONFIRM_MS + TICK_MS
"""A tick so long after an event stands for all those that an online run would have had meanwhile."""

BOOT_S = 300.0
"""Drivers, firmware and subnet managers take minutes; what is down after five is down."""

PEEK = 1000
"""So many events are looked at to learn whether a log tells moments."""


class Found(NamedTuple):
    """One event, where it stands, and its time on the log's own clock, which never falls."""

    line: int
    said: LogLine
    event: KernelEvent
    at_s: float


def read(inputs: list[Input], progress: Progress) -> Iterator[Run]:
    """One run for all logs with moments, and one for each without."""
    names = _names(inputs)
    timed: list[Iterator[Event]] = []
    alone: list[tuple[Input, Iterator[Event]]] = []
    for input_ in inputs:
        first_ms = _first_moment(input_.path)
        if first_ms is None:
            alone.append((input_, _events(input_, names[input_.path], None, progress)))
        else:
            timed.append(_events(input_, names[input_.path], first_ms, progress))
    if timed:
        yield Run(None, JOB, True, _ticks(heapq.merge(*timed, key=lambda found: found.ts_ms)))
    for number, (_, events) in enumerate(alone):
        yield Run(number if len(alone) > 1 else None, JOB, False, _ticks(events))


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """Every event with its line, code, address, time, severity, cause and action."""
    for found in _found(input_, lambda *_: None):
        said, told = found.said, found.event
        detail: dict[str, Any] = {name: _value(name, value) for name, value in told.detail.items()}
        if said.uptime_s is not None:
            detail["uptime_s"] = said.uptime_s
        if said.host:
            detail["host"] = said.host
        moment = None if said.ts_ms is None else datetime.fromtimestamp(said.ts_ms / 1000, UTC)
        yield {
            "line": found.line,
            "event": told.kind,
            "code": told.code,
            "pci": told.pci or None,
            "ts": None
            if moment is None
            else moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{said.ts_ms or 0:03d}"[-3:] + "Z",
            "severity": told.severity,
            "cause": told.cause,
            "action": told.action or None,
            "detail": detail | {"text": told.text},
        }


def _value(name: str, value: str) -> int | str:
    if name not in NUMBERS:
        return value
    try:
        return int(value, 0 if value.startswith("0x") else 10)
    except ValueError:
        return value


def _found(input_: Input, progress: Progress) -> Iterator[Found]:
    """The file's events in order, counted as they are read.

    A GPU's fall that is told both with and without an XID is given once, with the XID: the form without it waits for
    so long as the other could come.
    """
    waiting: deque[Found] = deque()
    for found in _completed(input_, progress):
        told = found.event
        while waiting and found.at_s - waiting[0].at_s > TOGETHER_S:
            yield waiting.popleft()
        if told.kind == "xid" and told.code == 79:
            waiting = deque(w for w in waiting if (w.event.kind, w.event.pci) != ("gpu_lost", told.pci))
        if waiting or told.kind == "gpu_lost":
            waiting.append(found)
        else:
            yield found
    yield from waiting


def _completed(input_: Input, progress: Progress) -> Iterator[Found]:
    until_ms = _written_ms(input_.path)
    hosts: dict[str, KernelLines] = {}
    at_s = 0.0
    for number, raw in enumerate(lines(input_.path), 1):
        if not raw.strip():
            continue
        input_.records += 1
        if number % 50_000 == 0:
            progress(f"reading {input_.path.name}", number)
        text = raw.decode("utf-8", "replace")
        if _quiet(text):
            at_s += 1.0  # the line counts as a second where no time is told, so that what is far apart stays so
            continue
        said = parse_log_line(text, until_ms)
        here = said.ts_ms / 1000 if said.ts_ms is not None else said.uptime_s
        at_s = max(at_s, here) if here is not None else at_s + 1.0
        for part in said.text.split("\n"):
            told = hosts.setdefault(said.host, KernelLines(falls_twice=True)).feed(part, at_s)
            if told is not None:
                yield Found(number, said, told, at_s)
            elif reason := malformed(part):
                input_.skip(reason)


def _quiet(text: str) -> bool:
    """Whether a line is not worth a closer look; a JSON object may hold several lines, or one as numbers."""
    return INTERESTING.search(text) is None and "\\n" not in text and not (text.startswith("{") and "[" in text)


def _events(input_: Input, name: str, first_ms: int | None, progress: Progress) -> Iterator[Event]:
    """The file's events as an agent would send them, in a time that never falls (a clock that is set back waits)."""
    now_ms = first_ms or 0
    gpus: dict[str, set[str]] = {}
    for seq, found in enumerate(_found(input_, progress)):
        said, told = found.said, found.event
        if first_ms is None:
            now_ms = max(now_ms, round(1000 * found.at_s))
        elif said.ts_ms is not None:
            now_ms = max(now_ms, said.ts_ms)
        node = said.host or name
        known = gpus.setdefault(node, set())
        if told.kind in OF_GPU:
            known.add(told.pci)
        of_gpu = told.pci in known or told.detail.get("driver") == "nvidia"
        yield event(
            told.kind,
            cluster="local",
            node=node,
            run_id=1,
            seq=seq,
            ts_ms=now_ms,
            severity="warning" if told.kind == "link_down" and _starting(said) else told.severity,
            code=told.code,
            pci=told.pci,
            gpu=told.detail.get("gpu", told.pci) if of_gpu else "",
            text=told.text[:1000],
            detail=told.detail | {"cause": told.cause, "action": told.action},
        )


def _starting(said: LogLine) -> bool:
    """Whether the machine has only just booted: links come and go until everything is up."""
    return said.uptime_s is not None and said.uptime_s < BOOT_S


def _ticks(events: Iterable[Event]) -> Iterator[tuple[int, list[Event]]]:
    """The events second by second, each followed by the time in which what it said is confirmed or taken back."""
    tick, waiting = 0, list[Event]()
    for found in events:
        here = found.ts_ms // TICK_MS * TICK_MS + TICK_MS
        if waiting and here > tick:
            yield tick, _folded(waiting)
            waiting = []
            if here > tick + SETTLED_MS:
                yield tick + SETTLED_MS, []
        tick = max(tick, here)
        waiting.append(found)
    if waiting:
        yield tick, _folded(waiting)
        yield tick + SETTLED_MS, []


def _folded(events: list[Event]) -> list[Event]:
    """Of a second's events of one kind, code and device the first and the last, which tells how many it stands for."""
    groups: dict[tuple[str, str, int | None, str], list[Event]] = {}
    for found in events:
        groups.setdefault((found.node, found.kind, found.code, found.pci), []).append(found)
    kept: list[Event] = []
    for group in groups.values():
        kept.append(group[0])
        if len(group) > 1:
            kept.append(replace(group[-1], detail=group[-1].detail | {"folded": str(len(group) - 1)}))
    return sorted(kept, key=lambda found: found.seq)


def _first_moment(path: Path) -> int | None:
    """The first moment that the log's events tell."""
    until_ms, seen = _written_ms(path), 0
    for raw in lines(path):
        text = raw.decode("utf-8", "replace")
        if _quiet(text):
            continue
        said = parse_log_line(text, until_ms)
        if said.ts_ms is not None:
            return said.ts_ms
        seen += 1
        if seen == PEEK:
            break
    return None


def _names(inputs: list[Input]) -> dict[Path, str]:
    """What a log's node is called where its lines name none: nothing where there is one log, else the file's name."""
    if len(inputs) == 1:
        return {inputs[0].path: ONLY_NODE}
    return {input_.path: input_.path.stem for input_ in inputs}


def _written_ms(path: Path) -> int:
    """When the file was written last: no line is younger, which tells the year of those that name none."""
    return round(path.stat().st_mtime * 1000)
