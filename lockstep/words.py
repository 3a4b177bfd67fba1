"""An incident as a person reads it, at a terminal at 3 a.m.: the same lines of a live one and of one in files."""

import re
import shutil
import textwrap
from datetime import UTC, datetime

from schemas import Incident
from schemas.causes import CAUSES, Cause
from schemas.finding import Subject

WIDTH = 10

REDIRECTED = 100
"""Columns where no terminal tells its own."""

SURE = 0.6
"""From this confidence on parts are taken out of service; below, something is checked first."""

DRASTIC = re.compile(r"\b(drain|replace|reseat|restart|reset|reboot|power-cycle|power down|shut)\b", re.IGNORECASE)

CHECKS: dict[Cause, str] = {
    "gpu_degraded": "run a GEMM check on this GPU and on a peer's, and look for another process on it.",
    "memory_bandwidth": "run a memory bandwidth check on this GPU and on a peer's.",
    "thermal_throttle": "the coolant flow and the cold plate of this tray.",
    "gpu_memory_error": "the GPU's ECC counters and remapped rows.",
    "gpu_lost": "whether nvidia-smi lists the GPU.",
    "pcie_degraded": "width and speed of the link at this PCI address (lspci -vv).",
    "nvlink_fault": "the GPU's NVLink error counters (nvidia-smi nvlink -e).",
    "process_gone": "the rank's own log.",
    "leak": "the tray and its leak sensor, by eye.",
    "pump_fan": "what the pump's or fan's speed reads.",
}
"""What to look at before anything is taken out of service."""


def incident_text(incident: Incident, timed: bool = True, where: str = "", width: int | None = None) -> str:
    """Who, what, since when, evidence, what to do, and the SQL to look further. `timed` says whether its times are
    moments, `where` which of several runs it is of. Lines are at most `width` long (the terminal's)."""
    width = width or columns()
    who = [culprit(incident, subject) for subject in incident.culprits]
    known = incident.cause != "unknown"
    of = "" if known else " of who" if who else " that something is wrong"
    runner_up = f", {'else' if known else 'perhaps'} {incident.runner_up}" if incident.runner_up else ""
    why = f"{incident.cause}: {CAUSES[incident.cause].words} ({incident.confidence:.0%} sure{of}{runner_up})"
    onset = moment(incident.onset_ms, incident.onset_step, timed)
    lines = [
        wrapped(f"{where}{incident.severity.upper()} {headline(incident)}", "  ", width),
        _line("who", "; ".join(who) or "nobody in particular", width),
        _line("why", why, width),
        _line("impact", impact(incident), width),
        _line(
            "since",
            onset and f"{onset}, detected {moment(incident.detected_ms, incident.detected_step, timed) or 'later'}",
            width,
        ),
        *(_line("evidence" if i == 0 else "", said(item.text), width) for i, item in enumerate(incident.evidence)),
        _line("do", advice(incident), width),
        *(f"{_head('look at' if i == 0 else '')}{line}" for i, line in enumerate(incident.sql.splitlines())),
    ]
    return "\n".join(line for line in lines if line) + "\n"


def columns() -> int:
    """The terminal's width; 100 where the output goes into a file or pipe."""
    return max(40, shutil.get_terminal_size((REDIRECTED, 24)).columns)


def wrapped(text: str, indent: str, width: int) -> str:
    """The text over lines of at most `width`; words, paths and numbers are never broken."""
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def headline(incident: Incident) -> str:
    """Kind, who and what, without what the lines below it say: cause, UUID, job and time."""
    text = re.sub(r", since (\d\d:\d\d:\d\d UTC)?.*$", "", incident.summary)
    text = re.sub(rf" in job {re.escape(incident.job)}$", "", text) if incident.job else text
    words = CAUSES[incident.cause].words
    for part in (f": {words}", f"; {words}", f"{words}: "):
        text = text.replace(part, "")
    for subject in incident.culprits:
        text = text.replace(subject.label(), subject.label().split(" (")[0])
    text = said(text)
    kind = incident.kind.replace("_", " ")
    names = [_short(incident, subject) for subject in incident.culprits]
    told = not names or any(name in text for name in names) or incident.kind == "hang"
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{kind}: {text}" if told else f"{kind}, {names[0]}{more}: {text}"


def culprit(incident: Incident, subject: Subject) -> str:
    """Who is meant, in the words of the verdict: where it speaks of workers, a rank is a worker."""
    label = said(subject.label())
    spoken = subject.rank is not None and re.search(rf"\bworker {subject.rank}\b", incident.summary)
    return label.replace("rank ", "worker ", 1) if spoken else label


def said(text: str) -> str:
    """Without a GPU that is not known."""
    return re.sub(r"\(GPU unknown on ([^()]*)\)", r"on \1", text.replace(" (GPU unknown)", ""))


def impact(incident: Incident) -> str:
    """Who waits and how much slower the job is; "" where nothing is known of it."""
    slower = f"job {incident.slowdown:.2f} times slower" if incident.slowdown else ""
    waits = f"{incident.victims} ranks wait" if incident.victims != 1 else "1 rank waits"
    wide = bool(slower) or incident.scope in ("job", "stage", "group", "cluster")
    who = waits if incident.victims else "the whole job" if wide else ""
    return ", ".join(part for part in (who, slower) if part)


def advice(incident: Incident) -> str:
    """What to do; where the verdict is not sure, what to check before anything is taken out of service."""
    usual = incident.action or CAUSES[incident.cause].action
    if incident.confidence >= SURE or not DRASTIC.search(usual):
        return usual
    stack = "the stack of the ranks that are waited for, and whether their processes live."
    default = stack if incident.kind == "hang" else "what the evidence names, beside a healthy peer."
    return f"Check first: {CHECKS.get(incident.cause, default)}"


def moment(ms: int, step: int | None, timed: bool) -> str:
    """A step, a moment, or both; "" where neither is known."""
    at = datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if timed else ""
    number = f"step {step}" if step is not None else ""
    return " ".join(part for part in (number, f"({at})" if number and at else at) if part)


def _short(incident: Incident, subject: Subject) -> str:
    """The shortest name that tells who it is: a UUID is for the line below."""
    if subject.scope == "rank" and subject.rank is not None:
        return culprit(incident, subject).split(" (")[0]
    if subject.scope == "gpu" and subject.gpu.startswith("GPU-"):
        return f"a GPU on {subject.node}" if subject.node else "a GPU"
    return subject.label()


def _head(name: str) -> str:
    return f"  {name:<{WIDTH}} "


def _line(name: str, text: str, width: int) -> str:
    return wrapped(_head(name) + text, " " * (WIDTH + 3), width) if text else ""
