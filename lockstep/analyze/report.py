"""What an analysis answers: the JSON of the contract, and the page that a tired person reads."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from lockstep import words
from lockstep.analyze.recording import Input
from lockstep.analyze.steps import ONLY_NODE
from schemas.finding import Subject
from schemas.incident import Incident

MOST_NOTES = 8
"""Lines about single files that the text shows of one kind."""


NOT_JUDGED = "not judged"
"""How the note of an input begins of which too little is there for a verdict."""


class RunVerdict(msgspec.Struct):
    """One run and its incidents; `timed` says whether its times are moments."""

    run: int | None
    job: str
    timed: bool
    incidents: list[Incident]
    where: str = ""


class Report(msgspec.Struct):
    """The whole answer."""

    inputs: list[Input]
    runs: list[RunVerdict]

    @property
    def healthy(self) -> bool:
        return not any(run.incidents for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """Plain values: the contract of `lockstep analyze --format json`."""
        return {
            "inputs": [
                {
                    "path": str(i.path),
                    "kind": i.kind,
                    "records": i.records,
                    "skipped": i.skipped,
                    "coverage": round(i.coverage, 4),
                    **({"reasons": i.reasons} if i.reasons else {}),
                    **({"notes": i.notes} if i.notes else {}),
                }
                for i in self.inputs
            ],
            "healthy": self.healthy,
            "incidents": [_incident(run, incident) for run in self.runs for incident in run.incidents],
        }

    def to_text(self, width: int | None = None) -> str:
        """For a terminal, or so many columns."""
        width = width or words.columns()
        above = [words.wrapped(line, "    ", width) for line in [*self._inputs_text(), *self._verdict_text()]]
        return "\n".join([*above, *self._incidents_text(width)]).rstrip() + "\n"

    def _inputs_text(self) -> list[str]:
        kinds: dict[str, list[Input]] = {}
        for input_ in self.inputs:
            kinds.setdefault(input_.kind, []).append(input_)
        out = []
        for kind, inputs in kinds.items():
            if kind == "unknown":
                names = ", ".join(i.path.name for i in inputs[:3]) + (" ..." if len(inputs) > 3 else "")
                out.append(f"Not recognised, left out: {_files(len(inputs))} ({names})")
                out += _hints(inputs)
                continue
            records, skipped = sum(i.records for i in inputs), sum(i.skipped for i in inputs)
            line = f"Read {records:,} record{'s' if records != 1 else ''} of {len(inputs)} {kind} file"
            line += "s" if len(inputs) != 1 else ""
            reasons: dict[str, int] = {}
            for input_ in inputs:
                for reason, count in input_.reasons.items():
                    reasons[reason] = reasons.get(reason, 0) + count
            if skipped:
                line += f", skipped {skipped} ({', '.join(f'{n} {r}' for r, n in sorted(reasons.items()))})"
            worst = min(inputs, key=lambda i: i.coverage)
            if worst.coverage < 0.995:
                part = f"{worst.coverage:.0%}" if worst.coverage >= 0.01 else "less than 1%"
                line += f"; operations are missing: {worst.path.name} has {part} of those between its first and last"
            out.append(line)
            noted = [(i.path.name, note) for i in inputs for note in i.notes]
            out += [f"  {name}: {note}" for name, note in noted[:MOST_NOTES]]
            if len(noted) > MOST_NOTES:
                out.append(f"  and {len(noted) - MOST_NOTES} more such lines (all in --format json)")
        return out

    def _verdict_text(self) -> list[str]:
        several = len(self.runs) > 1
        if not self.runs:
            return ["", "Nothing here could be judged."]
        job = self.runs[0].job
        what = f"{len(self.runs)} runs" if several else f"job {job}" if job else "what was read"
        if self.healthy and any(note.startswith(NOT_JUDGED) for i in self.inputs for note in i.notes):
            return ["", f"Nothing found in {what}, but not all of it could be judged: see above."]
        if self.healthy:
            return ["", f"HEALTHY: {what}, nothing out of step."]
        count = sum(len(run.incidents) for run in self.runs)
        ill = sum(bool(run.incidents) for run in self.runs)
        where = f" in {ill} of {len(self.runs)} runs" if several else ""
        return ["", f"{count} INCIDENT{'S' if count != 1 else ''}{where}", ""]

    def _incidents_text(self, width: int) -> list[str]:
        out: list[str] = []
        for run in self.runs:
            place = [run.where] if run.where else []
            where = ", ".join([*place, f"run {run.run}"] if run.run is not None else place)
            where = f"{where}: " if where else ""
            for incident in run.incidents:
                known = msgspec.structs.replace(incident, sql="")
                out.append(_named(words.incident_text(known, run.timed, where, width)))
        return out


def _hints(inputs: list[Input]) -> list[str]:
    """What is known of files that are not read, each reason once with its first file."""
    first: dict[str, str] = {}
    for input_ in inputs:
        for note in input_.notes:
            first.setdefault(note, input_.path.name)
    return [f"  {name}: {note}" for note, name in first.items()][:MOST_NOTES]


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _incident(run: RunVerdict, incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.id,
        "kind": incident.kind,
        "scope": incident.scope,
        "cause": incident.cause,
        "confidence": round(incident.confidence, 3),
        "runner_up": incident.runner_up,
        "severity": incident.severity,
        "run": run.run,
        **({"where": run.where} if run.where else {}),
        "culprits": [_culprit(subject) for subject in incident.culprits],
        "victims": incident.victims,
        "slowdown": incident.slowdown,
        "onset": {"step": incident.onset_step, "ts": _iso(incident.onset_ms) if run.timed else None},
        "detected": {"step": incident.detected_step, "ts": _iso(incident.detected_ms) if run.timed else None},
        "summary": _summary(run, incident),
        "evidence": [item.text for item in incident.evidence],
        "action": words.advice(incident),
    }


def _culprit(s: Subject) -> dict[str, int | str | None]:
    node = "" if s.node == ONLY_NODE else s.node
    return {
        "rank": s.rank,
        "node": node or None,
        "gpu": s.gpu or None,
        "link": s.link or None,
        "group": s.group or None,
    } | ({"rack": s.rack} if s.scope == "rack" else {})


def _summary(run: RunVerdict, incident: Incident) -> str:
    """The incident's line; of a run that knows no moments only the step of its onset is told."""
    line = _named(incident.summary)
    if run.timed:
        return line
    line = re.sub(r"since [\d:]{8} UTC \(step (\d+)\)", r"since step \1", line)
    return re.sub(r", since [\d:]{8} UTC$", "", line)


def _named(text: str) -> str:
    """Without the made-up name of rows that name no node."""
    text = text.replace(f" on {ONLY_NODE}", "")
    return text.replace(f"node {ONLY_NODE}", "this node").replace(ONLY_NODE, "this node")


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
