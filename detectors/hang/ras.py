"""NCCL's RAS snapshots of one or several jobs: which rank has not launched what its peers wait for, and who is gone.

RAS counts what the CPU has launched, not what has finished. A difference is normal in passing; a difference in which
no count of the job moves for a while is a standstill, and the rank with the lowest count that waits for nobody itself
is where it began. RAS lists minorities, which may be the ones ahead: here the lowest count counts. Equal frozen counts
say nothing: an idle job and a stuck GPU look alike.
"""

from collections.abc import Iterable

import msgspec

from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.hang.evidence import Hang, names
from detectors.hang.standstill import subjects, verdict
from detectors.hang.waits import ends, waiters
from schemas.finding import Finding, Subject

FROZEN_MS = 10_000
"""No count of the job moved for so long: two polls 15 s apart show it, whatever their jitter and whole-second times."""

IN_PROGRESS, REMOTE_ERROR = 7, 6
"""ncclResult_t values that are no error of the rank itself: still initialising, and a peer that went away."""

ERRORS = {1: "CUDA error", 2: "system error", 3: "internal error", 4: "invalid argument", 5: "invalid usage"}

RULE = Rule("ras", "hang", Persistence())

DEAD, UNRESPONSIVE, BEHIND, UNSTAMPED = 0.9, 0.7, 0.85, 0.75
"""Confidence: RAS gave the process up (60 s); it does not answer now (20 s); frozen behind its peers; the same where
the snapshots carry no time."""

Process = tuple[str, int]
"""Host as RAS prints it (an address), process id."""


class Member(msgspec.Struct, frozen=True):
    """One rank of a communicator that answered. `running` is neither initialising nor ending; `error` is its
    asynchronous error (ncclResult_t)."""

    rank: int
    process: Process
    counts: dict[str, int] = {}
    running: bool = True
    error: int = 0


class Absent(msgspec.Struct, frozen=True):
    """One rank that did not answer."""

    rank: int
    process: Process
    dead: bool = False


class Communicator(msgspec.Struct, frozen=True):
    """One communicator in one snapshot; `id` names it in all snapshots."""

    id: str
    size: int
    members: tuple[Member, ...] = ()
    absent: tuple[Absent, ...] = ()


class Snapshot(msgspec.Struct, frozen=True):
    """One answer of RAS. `ts_ms` is None where it carries no time (text form). `lost` are processes that a MONITOR
    event called dead, with words."""

    ts_ms: int | None
    communicators: tuple[Communicator, ...] = ()
    lost: tuple[tuple[Process, str], ...] = ()
    version: str = ""


class _Job(msgspec.Struct):
    """One job: what its counts were last, and since when they have been so."""

    name: str
    counts: dict[tuple[str, int], dict[str, int]] = {}
    since_ms: int = 0
    seen: int = 0
    quiet_ms: int = 0


class RasDetector:
    """Snapshots in time order in, findings out: the first snapshot that proves a standstill opens it."""

    def __init__(self, cluster: str) -> None:
        self._episodes = Episodes(cluster)
        self._jobs: dict[str, _Job] = {}
        self._job_of: dict[Process, str] = {}
        self._rank_of: dict[Process, tuple[int, int]] = {}

    def update(self, snapshot: Snapshot, ts_ms: int) -> list[Finding]:
        """Take the next snapshot; `ts_ms` is its own time, or the place of one that has none."""
        said: list[Finding] = []
        seen: dict[Subject, Verdict] = {}
        judged: set[str] = set()
        for communicators in _together(snapshot.communicators):
            job = self._job(communicators)
            judged.add(job.name)
            for hang in self._judge(job, communicators, snapshot.ts_ms, ts_ms):
                nodes = {self._rank(p): p[0] for p in self._rank_of if self._job_of.get(p) == job.name}
                for subject in subjects(job.name, hang, nodes):
                    seen.setdefault(subject, verdict(hang))
                    said += self._episodes.observe(RULE, subject, True, ts_ms, lambda h=hang: verdict(h), hang.onset_ms)  # type: ignore[misc]
        for process, words in snapshot.lost:
            said += self._lost(process, words, ts_ms)
        for subject in self._episodes.open(RULE):
            if subject not in seen and subject.job in judged:
                over = self._jobs[subject.job].since_ms == ts_ms
                said += self._episodes.observe(RULE, subject, False if over else None, ts_ms)
        return said

    def standing(self) -> dict[str, int]:
        """Jobs whose counts are equal and have not moved, and for how many milliseconds: nothing RAS can judge."""
        return {job.name: job.quiet_ms for job in self._jobs.values() if job.quiet_ms >= FROZEN_MS}

    def _job(self, communicators: list[Communicator]) -> _Job:
        """The job of communicators that share processes: what any of them was of before, else named by the widest."""
        widest = max(communicators, key=lambda c: (c.size, c.id))
        places = [(process, rank, c.size) for c in communicators for process, rank in _places(c)]
        name = next((self._job_of[p] for p, _, _ in places if p in self._job_of), "")
        if not name:
            name = f"nccl:{widest.id}" + (f"#{len(self._jobs)}" if f"nccl:{widest.id}" in self._jobs else "")
        for process, rank, size in places:
            self._job_of[process] = name
            if size > self._rank_of.get(process, (0, 0))[0]:
                self._rank_of[process] = (size, rank)
        return self._jobs.setdefault(name, _Job(name))

    def _rank(self, process: Process) -> int:
        return self._rank_of[process][1]

    def _judge(self, job: _Job, communicators: list[Communicator], stamp: int | None, ts_ms: int) -> list[Hang]:
        counts = {(c.id, m.rank): m.counts for c in communicators for m in c.members}
        moved = any(job.counts.get(key, value) != value for key, value in counts.items())
        if moved or not job.seen or not job.counts.keys() & counts.keys():
            job.since_ms, job.seen = ts_ms, 0
        job.counts |= counts
        job.seen += 1
        frozen_ms = ts_ms - job.since_ms
        frozen = job.seen > 1 and (stamp is None or frozen_ms >= FROZEN_MS)
        gone = self._gone(communicators, ts_ms)
        errors = self._errors(communicators, ts_ms)
        behind = self._behind(job, communicators, stamp is not None, ts_ms) if frozen else []
        equal = frozen and not behind and any(any(value.values()) for value in counts.values())
        job.quiet_ms = frozen_ms if equal and not gone and stamp is not None else 0
        return [*_joined(behind, gone), *errors]

    def _behind(self, job: _Job, communicators: list[Communicator], stamped: bool, ts_ms: int) -> list[Hang]:
        """Who has launched less than its peers wait for, and waits for nobody itself."""
        waits: dict[Process, set[Process]] = {}
        facts: dict[Process, list[str]] = {}
        ahead_of: dict[Process, tuple[str, int, int]] = {}
        for c in sorted(communicators, key=lambda c: (c.size, c.id)):
            if not all(m.running for m in c.members):
                continue  # while a communicator begins or ends its ranks differ
            for function in sorted({name for m in c.members for name in m.counts}):
                said = {m.process: m.counts[function] for m in c.members if function in m.counts}
                for a in c.absent:
                    before = job.counts.get((c.id, a.rank), {})
                    if function in before:
                        said[a.process] = before[function]
                most = max(said.values())
                late = {process for process, count in said.items() if count < most}
                if not late:
                    continue
                for process in said.keys() - late:
                    waits.setdefault(process, set()).update(late)
                for process in late:
                    words = f"{function} {said[process]} launched, {most} by {len(said) - len(late)} others"
                    facts.setdefault(process, []).append(f"rank {self._rank(process)} of communicator {c.id}: {words}")
                    ahead_of.setdefault(process, (function, said[process], c.size))
        found = ends(waits)
        single = {next(iter(end)) for end in found if len(end) == 1}
        sure = BEHIND if stamped else UNSTAMPED
        size = max(c.size for c in communicators)
        if single and len(single) <= size / 2:
            function, count, _ = ahead_of[min(single, key=self._rank)]
            who = tuple(sorted(map(self._rank, single)))
            waiting = waiters(waits, single)
            what = f"job stands still: {names(who)} launched {count} {function}, the peers more"
            evidence = [fact for process in sorted(single, key=self._rank)[:3] for fact in facts[process][:2]]
            evidence.append(self._frozen(job, stamped, ts_ms))
            return [
                Hang("not_entered", who, "", sure, "python_stall", len(waiting), job.since_ms, what, tuple(evidence))
            ]
        rings = [end for end in found if len(end) > 1]
        if rings:
            who = tuple(sorted(map(self._rank, rings[0])))
            what = f"job stands still: {names(who)} wait for each other in different communicators"
            evidence = [fact for process in sorted(rings[0], key=self._rank) for fact in facts.get(process, ())][:4]
            return [
                Hang(
                    "communicator_deadlock", (), f"of {names(who)}", sure, "not_entered", len(who), job.since_ms, what,
                    (*evidence, self._frozen(job, stamped, ts_ms)),
                )
            ]  # fmt: skip
        if single:
            ahead = tuple(sorted({self._rank(p) for p in waits} - {self._rank(p) for p in single}))
            what = f"job stands still: only {names(ahead)} launched the next collective, {len(single)} ranks did not"
            return [
                Hang(
                    "not_entered", (), f"all but {names(ahead)}", 0.6, "collective_mismatch", len(ahead), job.since_ms,
                    what, (*facts[min(single, key=self._rank)][:2], self._frozen(job, stamped, ts_ms)),
                )
            ]  # fmt: skip
        return []

    def _frozen(self, job: _Job, stamped: bool, ts_ms: int) -> str:
        if not stamped:
            return "no count of the job differs between two snapshots one after the other"
        return f"no count of the job has moved for {(ts_ms - job.since_ms) / 1000:g} s"

    def _gone(self, communicators: list[Communicator], ts_ms: int) -> list[Hang]:
        """Ranks that RAS cannot reach."""
        found: dict[int, tuple[bool, Process, int, str]] = {}
        for c in communicators:
            for a in c.absent:
                rank = self._rank(a.process)
                dead = a.dead or found.get(rank, (False,))[0]
                if rank not in found or c.size > found[rank][2]:
                    found[rank] = (dead, a.process, c.size, c.id)
        return [
            Hang(
                "process_gone",
                (rank,),
                "",
                DEAD if dead else UNRESPONSIVE,
                None if dead else "not_entered",
                size - 1,
                ts_ms,
                f"job stands still: rank {rank} {'is dead to' if dead else 'does not answer'} NCCL's RAS network",
                (
                    f"rank {rank} (process {pid} on {host}) is missing from communicator {id_} of {size} ranks: "
                    f"{'considered dead, unreachable for 60 s' if dead else 'unresponsive'}",
                ),
            )
            for rank, (dead, (host, pid), size, id_) in sorted(found.items())
        ]

    def _errors(self, communicators: list[Communicator], ts_ms: int) -> list[Hang]:
        """Ranks whose own NCCL reports an error."""
        found: dict[int, Hang] = {}
        for c in communicators:
            for m in c.members:
                if m.error in ERRORS:
                    rank = self._rank(m.process)
                    what = f"NCCL reports a {ERRORS[m.error]} ({m.error}) on rank {rank}"
                    evidence = f"asynchronous error {m.error} on rank {m.rank} of communicator {c.id}"
                    found.setdefault(
                        rank, Hang("unknown", (rank,), "", 0.6, None, c.size - 1, ts_ms, what, (evidence,))
                    )
        return list(found.values())

    def _lost(self, process: Process, words: str, ts_ms: int) -> list[Finding]:
        job = self._job_of.get(process, "")
        rank = self._rank(process) if process in self._rank_of else None
        subject = Subject(scope="rank", job=job, rank=rank, node=process[0])
        what = f"process {process[1]} on {process[0]} is dead to NCCL's RAS network"
        hang = Hang("process_gone", (), "", UNRESPONSIVE, None, 0, ts_ms, what, (words,))
        return self._episodes.observe(RULE, subject, True, ts_ms, lambda: verdict(hang), ts_ms)


def _joined(behind: list[Hang], gone: list[Hang]) -> list[Hang]:
    """One word on each rank: who is frozen behind its peers and does not answer is still the one who did not come,
    until RAS gives it up."""
    left = {rank for hang in gone if hang.confidence >= DEAD for rank in hang.ranks}
    out = []
    for hang in behind:
        more = tuple(text for g in gone if set(g.ranks) & set(hang.ranks) for text in g.evidence)
        kept = tuple(rank for rank in hang.ranks if rank not in left)
        if kept or not hang.ranks:
            out.append(msgspec.structs.replace(hang, ranks=kept, evidence=hang.evidence + more))
    known = {rank for hang in out for rank in hang.ranks}
    facts = tuple(text for hang in behind for text in hang.evidence[:2])
    out += [
        msgspec.structs.replace(g, evidence=g.evidence + (facts if behind else ()))
        for g in gone
        if not set(g.ranks) <= known
    ]
    return out


def _places(c: Communicator) -> list[tuple[Process, int]]:
    return [(m.process, m.rank) for m in c.members] + [(a.process, a.rank) for a in c.absent]


def _together(communicators: Iterable[Communicator]) -> list[list[Communicator]]:
    """Communicators by job: those that share a process, directly or over others."""
    groups: list[tuple[set[Process], list[Communicator]]] = []
    for c in communicators:
        processes = {process for process, _ in _places(c)}
        joined = [g for g in groups if g[0] & processes]
        rest = [g for g in groups if not g[0] & processes]
        merged = (processes.union(*(g[0] for g in joined)), [x for g in joined for x in g[1]] + [c])
        groups = [*rest, merged]
    return [found for _, found in groups]
