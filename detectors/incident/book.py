"""One fault, one incident: verdicts that belong together, with hysteresis in event time.

suspect -> confirmed -> recovering -> resolved. Alerts go out from confirmed on. Every revision says the whole
incident; the id is that of the finding that opened it, so a replay tells the same story under the same names.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from detectors.event_rules import ACTION, asked, meaning, spoken
from detectors.incident.relation import Places, related, same_subject
from detectors.incident.sql import sql
from detectors.incident.words import action, cause_of, culprits, evidence, leading, members, scope, severity, summary
from detectors.state import unpack
from schemas.event import Event
from schemas.finding import Evidence, Finding, Subject
from schemas.identity import incident_id
from schemas.incident import Incident, IncidentState
from schemas.inventory import Inventory
from schemas.xid import RECOVERY

CONFIRM_MS = 5_000
"""A verdict that nothing else supports is confirmed when it has held for five seconds."""

SURE = 0.8
"""A verdict this confident is confirmed at once."""

TWO_WITNESSES = frozenset(("exec_time_us", "step_us"))
"""So is one that both the collectives and the training's own step times show, whatever the cause: its confidence is
that of the cause, and who is late was tested over several rounds and told by two sources that know nothing of each
other. Two detectors that agree are confirmed for the same reason."""

TWO_SIDES = frozenset(("self_us", "step_us"))
IN_THE_PROCESS = ("data_loading", "python_stall", "allocator_stall", "sporadic_stall")
"""And a late rank whose steps show both sides, its own time up and its peers waiting for it, where the cause is one of
its process: that is tested over many steps before the first word, and nobody swaps a GPU for it. What may be hardware
waits, since a node that becomes slow as a whole shows in one of its ranks first."""

RECOVER_MS = 30_000
"""An incident is over when all its verdicts have been closed for half a minute."""

UNHEARD_MS = 600_000
"""An open verdict without a heartbeat for ten minutes (60 missed ones) has lost its detector and counts as closed."""

FADED = 0.25
"""A verdict whose score (the delay it causes) fell to a quarter speaks of an end, not of another cause."""

KEPT_MS = 3_600_000
"""How long the findings of an incident that is over are remembered, so that a late repeat opens nothing."""

MOST_KEPT = 10_000

MOST_HELD = 256
"""Verdicts of one incident that are kept whole; of further ones only who they are: state stays below 512 KiB."""

MOST_NAMED = 1_000
"""So many of its verdicts' ids an incident names."""

CROWD = 32
GROWTH_MS = 1_000
"""An incident of more verdicts than a reader takes in one by one says its growth once a second."""


class _Held(msgspec.Struct, kw_only=True):
    """One incident that is not over: its verdicts by id (newest word), and what was last said of it."""

    version: Literal[1] = 1
    findings: dict[str, Finding]
    further: dict[str, tuple[int, int]] = {}
    notes: list[Evidence] = []
    opened_ms: int
    quiet_since_ms: int | None = None
    state: IncidentState = "suspect"
    last: Incident | None = None

    def crowded(self, now_ms: int) -> bool:
        """Whether growth must wait until the last word is a second old."""
        if self.last is None or self.last.state == "suspect" or len(self.findings) <= CROWD:
            return False
        return now_ms - self.last.ts_ms < GROWTH_MS


class _Book(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    now_ms: int = 0
    over: dict[str, tuple[int, int]] = {}
    places: Places = msgspec.field(default_factory=Places)


class IncidentBook:
    """The incidents of one cluster. Time is the newest record's or `advance`d; it never goes back."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._book = _Book()
        self._held: dict[str, _Held] = {}
        self._of_finding: dict[str, str] = {}

    def apply(self, record: Finding | Event | Inventory) -> list[Incident]:
        """Take one record in; return the revisions it leads to (mostly none). A repeat leads to none.

        Inventory is optional: it tells which rack a node is in, which unit cools it, and for whom a GPU works.
        """
        if isinstance(record, Inventory):
            if record.rack:
                self._book.places.racks[record.node] = record.rack
            if record.cooling_loop:
                self._book.places.units[record.rack or record.node] = record.cooling_loop
            self._book.places.jobs |= {m.gpu: m.job for m in record.memberships if m.gpu}
            self._book.places.on[record.node] = tuple(sorted({m.job for m in record.memberships}))
            return []
        if isinstance(record, Event):
            return self._note(record)
        return self._finding(record)

    def advance(self, ts_ms: int) -> list[Incident]:
        """Let time pass: confirm what has held, resolve what is over."""
        self._book.now_ms = max(self._book.now_ms, ts_ms)
        now = self._book.now_ms
        said: list[Incident] = []
        for id_, held in list(self._held.items()):
            if held.crowded(now):
                continue
            for finding in held.findings.values():
                if finding.state != "close" and now - finding.ts_ms > UNHEARD_MS:
                    held.findings[finding.id] = msgspec.structs.replace(finding, state="close")
            for further in [f for f, (_, heard_ms) in held.further.items() if now - heard_ms > UNHEARD_MS]:
                self._leave(held, further)
            said += self._step(id_, held)
        over = self._book.over
        while over and (len(over) > MOST_KEPT or now - next(iter(over.values()))[1] > KEPT_MS):
            del over[next(iter(over))]  # the oldest: they were put in as they ended
        return said

    def open(self) -> tuple[Incident, ...]:
        """The newest word on every incident that is not over."""
        return tuple(held.last for held in self._held.values() if held.last is not None)

    def state(self) -> dict[str, bytes]:
        """One piece per incident by id, and "" for the rest."""
        pieces = {id_: msgspec.msgpack.encode(held) for id_, held in self._held.items()}
        return pieces | {"": msgspec.msgpack.encode(self._book)}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Continue from `state()`; raises detectors.state.StateError where a piece cannot be continued."""
        self._book = unpack(state[""], _Book) if "" in state else _Book()
        self._held = {id_: unpack(piece, _Held) for id_, piece in sorted(state.items()) if id_}
        self._of_finding = {f: id_ for id_, held in self._held.items() for f in (*held.findings, *held.further)}

    def _finding(self, finding: Finding) -> list[Incident]:
        said = self.advance(finding.ts_ms)
        id_ = self._of_finding.get(finding.id)
        if id_ is not None:
            held = self._held[id_]
            if finding.id in held.further:
                return said + self._further(id_, held, finding)
            if finding.revision <= held.findings[finding.id].revision:
                return said
            held.findings[finding.id] = _grown(held.findings[finding.id], finding)
            return said + self._grow(id_, held)
        known, _ = self._book.over.get(finding.id, (-1, 0))
        if finding.revision <= known or finding.state == "close":
            return said
        self._book.over.pop(finding.id, None)
        joined = [i for i, held in self._held.items() if self._belongs(finding, held)]
        if not joined:
            id_ = incident_id(self._cluster, finding.id)
            held = self._held[id_] = _Held(findings={finding.id: finding}, opened_ms=self._book.now_ms)
            self._of_finding[finding.id] = id_
            return said + self._step(id_, held)
        id_ = min(joined, key=lambda i: (self._held[i].opened_ms, i))
        held = self._held[id_]
        self._of_finding[finding.id] = id_
        if self._room(held):
            held.findings[finding.id] = finding
        else:
            held.further[finding.id] = (finding.revision, finding.ts_ms)
        for other in sorted(set(joined) - {id_}):
            said += self._merge(id_, other)
        return said + self._grow(id_, held)

    def _room(self, held: _Held) -> bool:
        """Whether one more verdict is kept whole; those that are over make room, but for the one that leads."""
        if len(held.findings) < MOST_HELD:
            return True
        ended = [f for f in held.findings.values() if f.state == "close"]
        if not ended:
            return False
        lead = leading(list(held.findings.values())).id
        old = min((f for f in ended if f.id != lead), key=lambda f: (f.ts_ms, f.id), default=None)
        if old is None:
            return False
        del held.findings[old.id]
        held.further[old.id] = (old.revision, old.ts_ms)
        self._leave(held, old.id)
        return True

    def _further(self, id_: str, held: _Held, finding: Finding) -> list[Incident]:
        """News of a verdict that is not kept whole: only whether it goes on counts."""
        if finding.revision <= held.further[finding.id][0]:
            return []
        held.further[finding.id] = (finding.revision, finding.ts_ms)
        if finding.state == "close":
            self._leave(held, finding.id)
        return self._grow(id_, held)

    def _leave(self, held: _Held, finding_id: str) -> None:
        """A verdict is not held any more; a late repeat of it opens nothing."""
        revision, _ = held.further.pop(finding_id)
        self._of_finding.pop(finding_id, None)
        self._book.over[finding_id] = (revision, self._book.now_ms)

    def _grow(self, id_: str, held: _Held) -> list[Incident]:
        """Say what changed; in a crowd that is left to the next second."""
        return [] if held.crowded(self._book.now_ms) else self._step(id_, held)

    def _belongs(self, finding: Finding, held: _Held) -> bool:
        return any(related(finding, member, self._book.places) for member in held.findings.values())

    def _merge(self, into: str, other: str) -> list[Incident]:
        """Two incidents turn out to be one: the younger is resolved and lives on in the older."""
        held, gone = self._held[into], self._held.pop(other)
        for finding in gone.findings.values():
            if self._room(held):
                held.findings[finding.id] = finding
            else:
                held.further[finding.id] = (finding.revision, finding.ts_ms)
        held.further |= gone.further
        ended = [f.id for f in gone.findings.values() if f.id in held.further and f.state == "close"]
        held.notes += [note for note in gone.notes if note not in held.notes]
        self._of_finding |= dict.fromkeys((*gone.findings, *gone.further), into)
        for finding_id in ended:
            self._leave(held, finding_id)
        assert gone.last is not None
        return [
            msgspec.structs.replace(
                gone.last,
                ts_ms=self._book.now_ms,
                revision=gone.last.revision + 1,
                change="resolve",
                state="resolved",
                resolved_ms=self._book.now_ms,
                summary=f"part of {into}: {gone.last.summary}"[:300],
                findings=(),
            )
        ]

    def _note(self, event: Event) -> list[Incident]:
        """An event of a GPU, rank or node that is in an incident is evidence there."""
        said = self.advance(event.ts_ms)
        if event.severity == "info" or (meaning(event) is not None and event.code != RECOVERY):
            return said  # what makes a verdict of its own comes with that verdict
        scope: Literal["gpu", "rank", "node"] = "gpu" if event.gpu else "node" if event.rank is None else "rank"
        subject = Subject(scope=scope, job=event.job, rank=event.rank, node=event.node, gpu=event.gpu)
        text = f"{spoken(event)} on {event.node}: {event.text or spoken(event)}"
        if event.code == RECOVERY and (wanted := asked(event)):
            # The driver's own verdict counts more than what a table says of the error before it.
            note = Evidence(text=f"{wanted} ({text})"[:300], metric=ACTION)
        else:
            note = Evidence(text=text[:300], metric=event.kind)
        for id_, held in list(self._held.items()):
            about = any(same_subject(subject, f.subject) for f in held.findings.values() if f.state != "close")
            told = {n.text for n in held.notes} | {e.text for f in held.findings.values() for e in f.evidence}
            if about and not {note.text, event.text} & told:
                held.notes = [*held.notes, note][-8:]
                said += self._step(id_, held, noted=True)
        return said

    def _step(self, id_: str, held: _Held, noted: bool = False) -> list[Incident]:
        """Move one incident to the state that its verdicts give it; say so where something a reader sees changed."""
        now = self._book.now_ms
        findings = list(held.findings.values())
        active = [f for f in findings if f.state != "close"]
        if active or held.further:
            held.quiet_since_ms = None
            sure = len({f.detector for f in active}) > 1 or any(map(_sure, active))
            was = held.last is not None and held.last.state != "suspect"
            held.state = "confirmed" if sure or was or now - held.opened_ms >= CONFIRM_MS else "suspect"
        elif held.quiet_since_ms is None:
            # What ends before it was confirmed stays a suspect to its end: nobody is paged for it.
            held.quiet_since_ms = now
            held.state = "suspect" if held.last is None or held.last.state == "suspect" else "recovering"
        elif now - held.quiet_since_ms >= RECOVER_MS:
            held.state = "resolved"
        said = self._say(id_, held, findings, noted)
        if held.state == "resolved":
            del self._held[id_]
            for finding in findings:
                self._of_finding.pop(finding.id, None)
                self._book.over[finding.id] = (finding.revision, now)
        return said

    def _say(self, id_: str, held: _Held, findings: Sequence[Finding], noted: bool) -> list[Incident]:
        lead = leading(findings)
        cause, confidence, runner_up = cause_of(lead, findings)
        who = culprits(lead, findings)
        last, now = held.last, self._book.now_ms
        onset_ms = min(f.onset_ms for f in findings)
        change: Literal["open", "update", "resolve"] = "open" if last is None else "update"
        incident = Incident(
            cluster=self._cluster,
            ts_ms=now,
            id=id_,
            revision=last.revision + 1 if last else 0,
            change="resolve" if held.state == "resolved" else change,
            state=held.state,
            kind=lead.kind,
            scope=scope(lead, who),
            cause=cause,
            confidence=confidence,
            runner_up=runner_up if runner_up != cause else None,
            severity=severity(lead, held.state != "suspect"),
            job=lead.subject.job or next((f.subject.job for f in findings if f.subject.job), ""),
            culprits=who,
            victims=max(f.victims for f in findings),
            slowdown=max((f.slowdown for f in findings if f.slowdown is not None), default=None),
            onset_ms=onset_ms,
            detected_ms=last.detected_ms if last else now,
            resolved_ms=now if held.state == "resolved" else None,
            onset_step=min((f.onset_step for f in findings if f.onset_step is not None), default=None),
            detected_step=min((f.detected_step for f in findings if f.detected_step is not None), default=None),
            summary=summary(lead, cause),
            evidence=evidence(lead, findings, held.notes),
            action=action(cause, lead.kind, [*findings, lead], held.notes),
            sql=sql(lead, who, onset_ms, now),
            findings=tuple(sorted((*held.findings, *held.further))[:MOST_NAMED]),
            members=members(findings, who),
        )
        if last is not None and not noted and _seen(last) == _seen(incident):
            return []
        held.last = incident
        return [incident]


def _grown(before: Finding, now: Finding) -> Finding:
    """A verdict's next word. Its last one, one that no longer knows the cause, and one said when most of the trouble
    is over do not replace what was known when it was at its clearest."""
    faded = now.state == "close" or (now.cause == "unknown" and before.cause != "unknown")
    faded = faded or now.score < before.score * FADED
    if not faded:
        return now
    return msgspec.structs.replace(before, ts_ms=now.ts_ms, revision=now.revision, state=now.state)


def _sure(finding: Finding) -> bool:
    """Whether one verdict alone needs no time to prove itself."""
    shown = {e.metric for e in finding.evidence}
    late = finding.kind == "straggler" and finding.subject.scope == "rank" and finding.cause in IN_THE_PROCESS
    return finding.confidence >= SURE or shown >= TWO_WITNESSES or (late and shown >= TWO_SIDES)


def _seen(incident: Incident) -> tuple[object, ...]:
    """What a reader acts on: a change of anything else is no revision."""
    return (
        incident.state,
        incident.kind,
        incident.scope,
        incident.cause,
        incident.severity,
        incident.culprits,
        incident.victims,
        incident.findings,
    )
