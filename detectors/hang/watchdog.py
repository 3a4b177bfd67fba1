"""What a job's log proves of a hang: PyTorch's watchdog lines and NCCL's warnings.

The ranks that report a time-out are the victims. Suspect is who does not report it although its peers do, and whose
watchdog itself is stuck. A log alone names few with certainty: it supports what dumps and RAS say.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from detectors.hang.evidence import Hang, names

FEW = 4
"""Silent ranks are suspects only where they are at most one in four of those that write into the log."""


class LogLine(NamedTuple):
    """One line that says something. `rank` is the global rank where the line tells it (`[rank3]:`), `local` the rank
    inside its process group or communicator. Numbers are PyTorch's sequence numbers; None where not told.

    `what`: timeout (this rank's collective timed out), exception (its watchdog's summary), stuck (the watchdog itself
    hangs), dump (a dump was asked for), warn (an NCCL warning), init (a communicator's place of this process).
    """

    what: str
    rank: int | None = None
    local: int | None = None
    group: str = ""
    seq: int | None = None
    op: str = ""
    timeout_ms: int | None = None
    enqueued: int | None = None
    completed: int | None = None
    clock: str = ""
    host: str = ""
    pid: int | None = None
    device: int | None = None
    warning: str = ""
    peer: str = ""
    link: str = ""
    text: str = ""


def judge(lines: Sequence[tuple[int, LogLine]], writers: Iterable[int] = ()) -> list[Hang]:
    """The hangs that the log proves, in its order; every line with its place (any number that rises). `writers` are all
    global ranks that write into the log."""
    found: list[Hang] = []
    works: dict[int, list[tuple[int, LogLine]]] = {}
    for at, line in lines:
        if line.what in ("timeout", "exception") and line.seq is not None:
            works.setdefault(line.seq, []).append((at, line))
        elif line.what == "stuck":
            found.append(_stuck(at, line))
        elif line.what == "warn":
            found += _warned(at, line)
    found += [_timed_out(seq, some, set(writers)) for seq, some in works.items()]
    return sorted(found, key=lambda hang: hang.onset_ms)


def _timed_out(seq: int, lines: list[tuple[int, LogLine]], writers: set[int]) -> Hang:
    said = [line for _, line in lines]
    reporters = {rank for line in said if (rank := _rank(line)) is not None}
    op = next((line.op for line in said if line.op), "collective")
    group = next((line.group for line in said if line.group), "")
    limit = next((line.timeout_ms for line in said if line.timeout_ms), None)
    behind = {
        r for line in said if (r := _rank(line)) is not None and line.enqueued is not None and line.enqueued < seq
    }
    silent = writers - reporters if len(reporters) > 1 else set()
    if len(silent) > max(1, len(writers) // FEW) or len(reporters) < len(silent) * 2:
        silent = set()
    ranks = tuple(sorted(behind or silent))
    after = f" after {limit / 1000:g} s" if limit else ""
    what = f"{op} number {seq}{f' of {group}' if group else ''} timed out{after} on {names(reporters)}"
    evidence = [what]
    newest = [line for line in said if line.enqueued is not None]
    evidence += [f"{_who(line)}: last enqueued {line.enqueued}, last completed {line.completed}" for line in newest[:4]]
    if silent:
        evidence.append(f"{names(silent)} write into this log and report no time-out")
    return Hang(
        "not_entered" if ranks else "unknown",
        ranks,
        group,
        0.6 if ranks else 0.5,
        None if ranks else "not_entered",
        len(reporters - set(ranks)),
        lines[0][0],
        f"job stands still: {what}",
        tuple(evidence),
    )


def _stuck(at: int, line: LogLine) -> Hang:
    rank = _rank(line)
    who = _who(line)
    return Hang(
        "python_stall",
        (rank,) if rank is not None else (),
        line.group,
        0.6,
        "gpu_stuck",
        0,
        at,
        f"job stands still: the watchdog of {who} is itself stuck",
        (f"{who}: its watchdog thread makes no progress: a CUDA or NCCL call blocks it, or somebody holds the GIL",),
    )


def _warned(at: int, line: LogLine) -> list[Hang]:
    where = f"GPU {line.device} of {line.host}"
    if line.warning == "mismatch":
        ranks = (line.local,) if line.local is not None else ()
        what = f"NCCL says that collectives do not match{f' around {names(ranks)}' if ranks else ''}, seen on {where}"
        sure = 0.7 if ranks else 0.6
        return [Hang("collective_mismatch", ranks, "", sure, None, 0, at, f"job stands still: {what}", (_short(line),))]
    if line.warning != "transport":
        return []
    over = f" over {line.link}" if line.link else ""
    peer = f" to {line.peer}" if line.peer else ""
    what = f"the network transport of {where}{peer}{over} failed{f' (status {line.op})' if line.op else ''}"
    return [
        Hang(
            "transport_stalled", (), "", 0.7, "fabric_link", 0, at, f"job stands still: {what}", (_short(line),),
            node=line.host, link=line.link,
        )
    ]  # fmt: skip


def _rank(line: LogLine) -> int | None:
    """The global rank; in old lines, which have only one number, that."""
    return line.rank if line.rank is not None else line.local


def _who(line: LogLine) -> str:
    rank = _rank(line)
    return f"rank {rank}" if rank is not None else line.host or "a rank"


def _short(line: LogLine) -> str:
    return line.text[:280]
