"""Everything that is said of one job: who is late, which link is slow, whether it stands still, and why.

Joins arrival (NCCL), steps and progress with the GPUs' features into ONE finding per culprit. Feed it all records of
a tick in (node, seq) order; it answers with what is to be said now. The same detector serves live and `analyze`.
"""

from collections.abc import Sequence

from detectors.episode import Episodes
from detectors.job.arrival import StreamArrival
from detectors.job.blame import MOST_OF_A_NODE, Blame, late_ranks, slow_links
from detectors.job.claims import HANG, RULES, SLOW_LINK, Claim, Claims
from detectors.job.groups import DEADLINE_MS, Assembly, Stream
from detectors.job.progress import ProgressDetector
from detectors.job.state import JobLearning, decode_decisions, encode_decisions
from detectors.job.steps import OF_STEPS, WORK_RISE, StepDetector, StepState
from detectors.job.view import JobView, Place, place_of
from schemas.collective import CollectiveFrame
from schemas.features import Features
from schemas.finding import Finding, Subject
from schemas.step import StepFrame

STALE_MS = 60_000
"""A test that was not fed for longer says nothing about now (longest step 10 s, with room for a checkpoint)."""

FORGET_MS = 600_000
"""Streams without a round for ten minutes belong to communicators that are gone."""

RESUMED_MS = 60_000
"""After a restart an open verdict is not closed for this long: the evidence must have time to come back."""

EXPLAINED, LEAST_WORK = 0.5, 0.01
"""More work explains a lateness where it is at least half as large a part of the work as that is of the time, and no
less than 1 %; more by 5 % explains any."""

NAMED = ("rank", "node")
"""Scopes that say who it is, as a group or the job do not."""

JobRecord = CollectiveFrame | StepFrame | Features


class JobDetector:
    """The detector of one job in one cluster."""

    def __init__(self, cluster: str, job: str) -> None:
        self.view = JobView(job)
        self.assembly = Assembly()
        self.streams: dict[Stream, StreamArrival] = {}
        self.steps = StepDetector()
        self.progress = ProgressDetector()
        self._claims = Claims(self.view, self.steps, self.assembly)
        self._episodes = Episodes(cluster)
        self._subjects: dict[tuple[str, Place], Subject] = {}
        self._first_step: dict[tuple[str, Place], int | None] = {}
        self._newest: dict[tuple[str, str], tuple[int, int]] = {}
        self._state: StepState | None = None
        self._state_ms = 0
        self._resumed_until: int | None = None
        self._resuming = False

    def update(self, tick_ms: int, records: Sequence[JobRecord]) -> list[Finding]:
        """Take in one tick; repeats, and frames not newer than the node's last, are left out."""
        if self._resuming:
            self._resuming, self._resumed_until = False, tick_ms + RESUMED_MS
        for record in records:
            self._take(tick_ms, record)
        rounds = self.assembly.ready(tick_ms)
        for round_ in rounds:
            stream = self.streams.get(round_.stream)
            if stream is None:
                stream = self.streams[round_.stream] = StreamArrival(len(round_.exec_us))
            stream.update(round_, tick_ms)
        said: list[Finding] = []
        stepped = False
        for state in self.steps.judge(tick_ms):
            stepped = True
            # When it ended, not when the wait for ranks that do not report was over.
            self.progress.moved(min(max(state.ts_ms, tick_ms - DEADLINE_MS), tick_ms))
            news = state.says_more_than(self._state)
            self._state, self._state_ms = state, tick_ms
            if news:
                # At the step that showed it, not at the end of the tick.
                ts_ms = min(max(state.ts_ms, tick_ms - STALE_MS), tick_ms)
                said += self._settle(ts_ms, self._now(tick_ms), True, False)
        standstill = self.progress.judge(tick_ms, self.view.fresh(tick_ms), self.view.unclaimed(), self.steps.behind())
        if standstill is not None:
            return said + self._settle(tick_ms, [self._claims.hang(standstill)], False, True)
        if tick_ms % FORGET_MS < 1000:
            self._forget(tick_ms)
        return said + self._settle(tick_ms, self._now(tick_ms), bool(rounds) or stepped, False)

    def coverage(self) -> float:
        """The part of the job's collectives that could be judged."""
        return self.assembly.coverage()

    def learning(self) -> dict[str, bytes]:
        """What a kill may lose a minute of, in pieces well under 512 KiB."""
        return JobLearning.of(self.streams, self.steps, self._episodes.pending()).pieces()

    def decisions(self) -> bytes:
        """What is open; to be written through before the records that changed it are acknowledged."""
        return encode_decisions(self._episodes.decided(), self._newest)

    def restore(self, learning: dict[str, bytes], decisions: bytes | None) -> tuple[Finding, ...]:
        """Continue from saved states. Returns the last word on every open or lately closed verdict, to be sent again.

        Raises detectors.state.StateError where a state cannot be continued.
        """
        learned = JobLearning.read(learning)
        learned.restore(self.streams, self.steps)
        decided, self._newest = decode_decisions(decisions)
        again = self._episodes.restore(decided, learned.pending)
        for rule in RULES:
            for subject in self._episodes.open(rule):
                self._subjects[rule.detector, place_of(subject)] = subject
        self._resuming = True
        return tuple(again)

    def _take(self, tick_ms: int, record: JobRecord) -> None:
        key, order = (record.topic, record.node), (record.run_id, record.seq)
        if order <= self._newest.get(key, (-1, -1)):
            return
        self._newest[key] = order
        self.view.take(record)
        if isinstance(record, CollectiveFrame):
            self.assembly.add(tick_ms, record)
            self.progress.add(record)
        elif isinstance(record, StepFrame):
            self.steps.add(tick_ms, record)

    def _now(self, tick_ms: int) -> list[Claim]:
        """Everything that holds now."""
        says = [
            (self.assembly.groups[stream.communicator], stream, arrival.says())
            for stream, arrival in self.streams.items()
            if arrival.stirring and stream.communicator in self.assembly.groups and tick_ms - arrival.tick_ms < STALE_MS
        ]
        if self.assembly.pipelined:
            says = [(group, stream, lateness.risen()) for group, stream, lateness in says]
        state = self._state if tick_ms - self._state_ms < STALE_MS else None
        blames = late_ranks(says, self.view.node_of)
        claims = self._culprits(state, [blame for blame in blames if not self._worked_more(blame)])
        groups = self.assembly.groups
        slow = slow_links(says, {s: groups[s.communicator] for s in self.streams if s.communicator in groups})
        if slow is not None:
            claims.append(self._claims.slow(slow))
        return claims

    def _culprits(self, state: StepState | None, blames: list[Blame]) -> list[Claim]:
        """Ranks, nodes or the job, each at most once: a node covers its ranks, a culprit the job's slowness."""
        steady, heavy = (state.steady, state.heavy) if state else (frozenset(), frozenset())
        shift = state.shift if state else None
        stalling = dict.fromkeys(state.stalling if state else (), 0)
        if shift is not None and (shift.in_turn or shift.node is None):
            rank = shift.rank if shift.rank is not None else self.steps.accountable(shift)
            if rank is not None and rank not in steady | heavy:
                stalling[rank] = shift.onset_ms
                shift = None
        late = {blame.late[0].rank: blame.late[0] for blame in blames if blame.scope == "rank"}
        nodes = {blame.node: blame for blame in blames if blame.scope == "node"}
        if shift is not None and shift.node is not None:
            nodes.setdefault(shift.node, Blame("node", (), node=shift.node))
        for node in self.view.nodes_of(steady):
            ranks = self.view.ranks_on(node)
            suspected = [rank for rank in ranks if state is not None and rank in state.suspected]
            if len(suspected) >= max(2, MOST_OF_A_NODE * len(ranks)):
                nodes.setdefault(node, Blame("node", (), node=node))
        covered = {rank for rank, node in self.view.node_of.items() if node in nodes}
        claims = [
            self._claims.straggler(rank, rank in steady or rank in stalling, late.get(rank))
            for rank in sorted((steady | set(late)) - covered - heavy)
        ]
        claims += [
            self._claims.stalls(rank, onset)
            for rank, onset in stalling.items()
            if rank not in covered | heavy | set(late) and not (onset == 0 and self._undecided(rank))
        ]
        claims += [self._claims.imbalance(rank) for rank in sorted(heavy)]
        claims += [
            self._claims.node(
                blame,
                shift if shift is not None and shift.node == node else None,
                [rank for rank in sorted(steady) if self.view.node_of.get(rank) == node],
            )
            for node, blame in sorted(nodes.items())
        ]
        claims += [self._claims.many(blame) for blame in blames if blame.scope == "job"]
        if shift is not None and not claims:
            claims.append(self._claims.whole_job(shift))
        return claims

    def _undecided(self, rank: int) -> bool:
        """Whether a rank that stalls does so in nearly every step since it began, less than a dozen ago: it is about to
        be steady, or its node is, and four steps are no reason to call a GPU weak."""
        found = self.steps.culprit(rank)
        return not found.sporadic and (self.steps.last_number or 0) - found.onset_step < OF_STEPS

    def _worked_more(self, blame: Blame) -> bool:
        """Whether the late ones had more to do, and that explains it: an imbalance, which steps tell of, and nobody's
        hardware."""
        ranks, onset_ms = [late.rank for late in blame.late], min(late.onset_ms for late in blame.late)
        costs = [late.cost for late in blame.late if late.period_us > 0]
        least = min(WORK_RISE, max(EXPLAINED * max(costs, default=1.0), LEAST_WORK))
        hits = max(late.hits for late in blame.late)
        return blame.scope in ("rank", "node") and self.steps.worked_more(ranks, onset_ms, least, hits)

    def _settle(self, ts_ms: int, claims: list[Claim], judged: bool, standing: bool) -> list[Finding]:
        """Observe every claim, and every open verdict that is claimed no longer. While the job stands still nothing is
        known of who is slow."""
        said: list[Finding] = []
        claimed = set()
        for claim in claims:
            key = (claim.rule.detector, self._place(claim))
            claimed.add(key)
            subject = self._subjects.get(key)
            if subject is None:
                subject = self._subjects[key] = self.view.describe(claim.place)
            step = self._first_step.setdefault(key, self.steps.last_number)
            said += self._episodes.observe(
                claim.rule,
                subject,
                True,
                ts_ms,
                lambda claim=claim, subject=subject, step=step: claim.say(subject, step),  # type: ignore[misc]
                claim.onset_ms,
            )
        resumed = self._resumed_until is not None and ts_ms < self._resumed_until
        for rule in RULES:
            for subject in self._episodes.open(rule):
                key = (rule.detector, place_of(subject))
                if key in claimed:
                    continue
                # While it stands still, a standstill that is said of nobody ends where another one says who it is.
                known = (rule is HANG if standing else judged or rule is HANG) and not resumed
                said += self._episodes.observe(rule, subject, False if known else None, ts_ms)
                if not self._episodes.is_open(rule, subject):
                    self._subjects.pop(key, None)
                    self._first_step.pop(key, None)
        return said

    def _place(self, claim: Claim) -> Place:
        """A slow link and a hang are one each per job: while one is open, what is learned later is still about it; but
        a hang of nobody in particular gives way to one that names a rank or node."""
        if claim.rule in (SLOW_LINK, HANG):
            for subject in self._episodes.open(claim.rule):
                if claim.rule is SLOW_LINK or subject.scope in NAMED or claim.place[0] not in NAMED:
                    return place_of(subject)
        return claim.place

    def _forget(self, tick_ms: int) -> None:
        for stream in [s for s, arrival in self.streams.items() if tick_ms - arrival.tick_ms > FORGET_MS]:
            del self.streams[stream]
