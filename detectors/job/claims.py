"""The verdicts on a job, one method each: under which rule, of whom, since when, and in which words."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from detectors.episode import Persistence, Rule, Verdict
from detectors.incident.cause import Witness, judge
from detectors.job.blame import Blame, LateRank, SlowLinks
from detectors.job.groups import Assembly
from detectors.job.progress import Standstill
from detectors.job.shift import Shift
from detectors.job.steps import StepDetector
from detectors.job.view import WHOLE_JOB, JobView, Place, names
from detectors.job.words import (
    HANG_WORDS,
    arrival_evidence,
    hang_evidence,
    heavy_evidence,
    ms,
    shift_evidence,
    slow_evidence,
    step_evidence,
    straggler_summary,
)
from schemas.causes import CAUSES, Cause
from schemas.features import GpuFeatures
from schemas.finding import Evidence, Subject

CLEAR_TICKS = 5
"""A verdict ends after five ticks that do not show it; its own test has hysteresis before that."""

STRAGGLER = Rule("job.straggler", "straggler", Persistence(clear=CLEAR_TICKS))
SLOW_LINK = Rule("job.slow_link", "slow_link", Persistence(clear=CLEAR_TICKS))
IMBALANCE = Rule("job.imbalance", "imbalance", Persistence(clear=CLEAR_TICKS))
DEGRADATION = Rule("job.shift", "degradation", Persistence(clear=CLEAR_TICKS))
HANG = Rule("job.progress", "hang", Persistence(clear=1))

RULES = (STRAGGLER, SLOW_LINK, IMBALANCE, DEGRADATION, HANG)

UNEVEN = 0.05
"""Work that differs by 5 % between the ranks, or is up by 5 % on all, explains a slower job."""

ONE_SIDED = 0.4
"""How sure a verdict can be that knows only the peers, no healthy past."""

CONGESTED = 0.08
"""Slow transfers that vary by 8 % and more are congestion rather than a link at a lower, steady rate."""


class Claim(NamedTuple):
    """One verdict that holds now; `say` makes its words when they are needed, given the subject and the step in which
    it was first claimed."""

    rule: Rule
    place: Place
    onset_ms: int
    say: Callable[[Subject, int | None], Verdict]


class Claims:
    """Makes claims from what the parts of a job's detector found."""

    def __init__(self, view: JobView, steps: StepDetector, assembly: Assembly) -> None:
        self._view, self._steps, self._assembly = view, steps, assembly

    def stalls(self, rank: int, onset_ms: int) -> Claim:
        """A rank whose late steps come now and then; `onset_ms` where it is known better than by its first stall."""
        claim = self.straggler(rank, True, None)
        return claim._replace(onset_ms=onset_ms) if onset_ms else claim

    def straggler(self, rank: int, by_steps: bool, late: LateRank | None) -> Claim:
        culprit = self._steps.culprit(rank) if by_steps else self._steps.account(rank, late.onset_ms) if late else None
        onsets = [c.onset_ms for c in (culprit, late) if c is not None and c.onset_ms] or [0]

        def say(subject: Subject, step: int | None) -> Verdict:
            witness = self._view.witness(rank)._replace(
                timed=culprit is not None,
                data_share=culprit.data_share if culprit else 0.0,
                allocator_share=culprit.allocator_share if culprit else 0.0,
                sporadic=culprit.sporadic if culprit else False,
            )
            why = judge(witness)
            if late is not None and late.standing and culprit is None and why.cause == "unknown":
                why = why._replace(confidence=min(why.confidence, ONE_SIDED))
            evidence: tuple[Evidence, ...] = step_evidence(culprit) if culprit else ()
            if late is not None:
                evidence = (*evidence, arrival_evidence(late))
            delay = culprit.excess_us if culprit else late.delay_us if late else 0.0
            often = "a step" if culprit else f"at each {late.stream.function}" if late else ""
            slowdown = _slowdown(culprit.step_us, culprit.step_past_us) if culprit else None
            if slowdown is None and late is not None and late.period_us > 0:
                slowdown = round(1 + late.delay_us / late.period_us, 3)
            victims = max(self._view.world - 1, late.group.size - 1 if late else 0)
            return Verdict(
                cause=why.cause,
                score=delay,
                confidence=why.confidence,
                runner_up=why.runner_up,
                victims=victims,
                slowdown=slowdown,
                summary=straggler_summary(subject, why, victims, slowdown, f"{ms(delay)} {often}"),
                evidence=(*evidence, *why.evidence, *self._view.missing(self._assembly)),
                onset_step=culprit.onset_step or None if culprit else None,
                detected_step=step if culprit else None,
            )

        return Claim(STRAGGLER, ("rank", rank), min(onsets), say)

    def imbalance(self, rank: int) -> Claim:
        heavy = self._steps.heavy_rank(rank)
        what = "sequence length" if self._steps.by_shape else "work"
        cause: Cause = "sequence_imbalance" if self._steps.by_shape else "work_imbalance"
        victims = self._view.world - 1

        def say(subject: Subject, step: int | None) -> Verdict:
            slowdown = _slowdown(heavy.step_us, heavy.step_past_us)
            return Verdict(
                cause=cause,
                score=heavy.step_us - heavy.step_past_us,
                confidence=0.85,
                victims=victims,
                slowdown=slowdown,
                summary=f"{subject.label()} has more work than its peers, job {slowdown or 1:.2f} times slower",
                evidence=heavy_evidence(heavy, what),
                onset_step=heavy.onset_step,
                detected_step=step,
            )

        return Claim(IMBALANCE, ("rank", rank), heavy.onset_ms, say)

    def node(self, blame: Blame, shift: Shift | None, steady: Sequence[int]) -> Claim:
        """A node whose ranks are slow together; `steady` are those of them that steps name one by one."""
        node = blame.node
        culprits = [self._steps.culprit(rank) for rank in steady[:3]]
        onsets = [late.onset_ms for late in blame.late] + [c.onset_ms for c in culprits]
        onsets += [shift.onset_ms] if shift else []
        ranks = self._view.ranks_on(node)

        def say(subject: Subject, step: int | None) -> Verdict:
            host, others = self._view.hosts.get(node, {}), self._view.other_hosts(node)
            timed = shift is not None or bool(culprits)
            in_turn = shift is not None and shift.in_turn
            why = judge(Witness(host=host, hosts=others, timed=timed, node=True, sporadic=in_turn))
            evidence = tuple(arrival_evidence(late) for late in blame.late[:3])
            evidence += tuple(step_evidence(c)[0] for c in culprits)
            if shift is not None:
                evidence = (*shift_evidence(shift, self._view.world), *evidence)
            delay = max([late.delay_us for late in blame.late] + [c.excess_us for c in culprits], default=0.0)
            slowdown = _slowdown(shift.step_us, shift.step_past_us) if shift else None
            first = shift.onset_step if shift else culprits[0].onset_step if culprits else None
            victims = max(self._view.world - len(ranks), 0)
            held = f"holds up {victims} ranks" if victims else "slows its job down"
            slower = f", job {slowdown:.2f} times slower" if slowdown else ""
            reason = f": {CAUSES[why.cause].words}" if why.cause != "unknown" else ""
            how = "hold it up in turn" if in_turn else "are slow together"
            return Verdict(
                cause=why.cause,
                score=delay or (shift.step_us - shift.step_past_us if shift else 0.0),
                confidence=why.confidence,
                runner_up=why.runner_up,
                victims=victims,
                slowdown=slowdown,
                summary=f"the ranks of {subject.label()} {how}, which {held}{slower}{reason}",
                evidence=(*evidence, *why.evidence, *self._view.missing(self._assembly)),
                onset_step=first,
                detected_step=step if timed else None,
            )

        return Claim(STRAGGLER, ("node", node), min(onsets), say)

    def many(self, blame: Blame) -> Claim:
        def say(subject: Subject, step: int | None) -> Verdict:
            worst = sorted(blame.late, key=lambda late: -late.delay_us)[:5]
            return Verdict(
                confidence=0.5,
                victims=max(self._view.world - len(blame.late), 0),
                summary=f"{len(blame.late)} ranks of {subject.label()} are late; no single culprit",
                evidence=tuple(arrival_evidence(late) for late in worst),
            )

        return Claim(DEGRADATION, WHOLE_JOB, min(late.onset_ms for late in blame.late), say)

    def whole_job(self, shift: Shift) -> Claim:
        work, uneven = self._steps.work_now()
        cause: Cause = "unknown"
        if uneven > UNEVEN:
            cause = "sequence_imbalance"
        elif work > 1 + UNEVEN:
            cause = "workload_change"
        rule = IMBALANCE if cause == "sequence_imbalance" else DEGRADATION

        def say(subject: Subject, step: int | None) -> Verdict:
            slowdown = _slowdown(shift.step_us, shift.step_past_us)
            reason = f": {CAUSES[cause].words}" if cause != "unknown" else ", no single culprit"
            evidence = shift_evidence(shift, self._view.world)
            if cause != "unknown":
                text = f"work per step is {work:.2f} times its past, unevenness over the ranks {uneven:.0%}"
                evidence = (*evidence, Evidence(text=text, metric="work", value=work, baseline=1.0))
            return Verdict(
                cause=cause,
                score=shift.step_us - shift.step_past_us,
                confidence=0.7 if cause != "unknown" else 0.4,
                victims=self._view.world,
                slowdown=slowdown,
                summary=f"{subject.label()} is {slowdown or 1:.2f} times slower as a whole{reason}",
                evidence=evidence,
                onset_step=shift.onset_step,
                detected_step=step,
            )

        return Claim(rule, WHOLE_JOB, shift.onset_ms, say)

    def slow(self, slow: SlowLinks) -> Claim:
        stream, lateness = slow.worst
        ranks = {rank for group in slow.groups for rank in group.ranks.tolist() if rank >= 0}
        group = next(g for g in slow.groups if g.id == stream.communicator)
        errors = self._nvlink_errors(ranks) if slow.one_node else []
        place: Place = ("group", group.label())
        if len(errors) == 1 or len(slow.shared) == 1:
            place = ("link", errors[0][0] if len(errors) == 1 else slow.shared[0])
        elif len(slow.groups) > 1 and not slow.fast_peers:
            place = WHOLE_JOB

        def say(subject: Subject, step: int | None) -> Verdict:
            cause, confidence, runner_up, more = self._slow_cause(slow)
            slowdown = None
            if lateness.period_us > 0:
                slowdown = round(1 + max(lateness.t_us - lateness.t_past_us, 0.0) / lateness.period_us, 3)
            words = CAUSES[cause].words if cause != "unknown" else "cause not known"
            rise = lateness.rise
            return Verdict(
                cause=cause,
                score=rise,
                confidence=confidence,
                runner_up=runner_up,
                victims=len(ranks),
                slowdown=slowdown,
                summary=f"collectives of {subject.label()} take {rise:.1f} times as long and nobody is late: {words}",
                evidence=(*slow_evidence(slow), *more, *self._view.missing(self._assembly)),
            )

        return Claim(SLOW_LINK, place, lateness.slow_onset_ms, say)

    def _slow_cause(self, slow: SlowLinks) -> tuple[Cause, float, Cause | None, tuple[Evidence, ...]]:
        """Inside one node: NVLink. Between nodes: some of several equal groups point at a link, all of them at
        congestion; a single group at congestion where its time varies; inside and between alike at a setting."""
        inside = any((g.nodes or len(g.hosts())) <= 1 for g in slow.groups)
        between = any((g.nodes or len(g.hosts())) > 1 for g in slow.groups)
        if inside and between and len(slow.groups) > 2:
            return "collective_configuration", 0.6, "fabric_congestion", ()
        if inside and not between:
            errors = self._nvlink_errors({int(rank) for group in slow.groups for rank in group.ranks})
            text = "; ".join(f"NVLink errors on GPU {gpu.uuid} (rank {rank})" for rank, gpu in errors[:3])
            return "nvlink_fault", 0.9 if errors else 0.6, None, (Evidence(text=text),) if text else ()
        if slow.fast_peers:
            return "fabric_link", 0.75, "fabric_congestion", ()
        if len(slow.groups) > 1:
            text = f"all {len(slow.groups)} groups of this kind are slow: more than one link"
            return "fabric_congestion", 0.65, "fabric_link", (Evidence(text=text),)
        noise = slow.worst[1].t_noise
        text = f"the slow transfers vary by {noise:.0%}"
        if noise > CONGESTED:
            return "fabric_congestion", 0.6, "fabric_link", (Evidence(text=text + ": congestion changes", value=noise),)
        return "fabric_link", 0.55, "fabric_congestion", (Evidence(text=text + ": a steady limit", value=noise),)

    def _nvlink_errors(self, ranks: set[int]) -> list[tuple[int, GpuFeatures]]:
        return [
            (rank, gpu)
            for rank in sorted(ranks)
            if (gpu := self._view.gpu(rank)) is not None
            and (gpu.readings.get("nvlink_error_count", 0.0) > 0 or any(k.startswith("xid:74") for k in gpu.recent))
        ]

    def hang(self, s: Standstill) -> Claim:
        nodes = {self._view.node_of.get(rank, "") for rank in s.ranks}
        whole = len(nodes) == 1 and s.ranks == self._view.ranks_on(next(iter(nodes)))
        place: Place = WHOLE_JOB
        if len(s.ranks) == 1:
            place = ("rank", s.ranks[0])
        elif s.ranks and len(nodes) == 1 and s.how != "transport":
            place = ("node", next(iter(nodes)))
        elif s.ranks and s.how in ("transport", "not_entered"):
            place = ("group", f"of ranks {names(s.ranks)}")
        causes: dict[str, Cause] = {
            "not_entered": "not_entered",
            "stuck": "gpu_stuck",
            "gone": "node_lost" if whole and len(s.ranks) > 1 else "process_gone",
            "transport": "transport_stalled",
            "unknown": "unknown",
        }

        def say(subject: Subject, step: int | None) -> Verdict:
            cause, confidence, evidence = causes[s.how], s.sure, [hang_evidence(s)]
            for rank in s.ranks[:4]:
                gpu = self._view.gpu(rank)
                found = judge(Witness(gpu=gpu)) if gpu is not None else None
                if found and found.cause in ("gpu_lost", "gpu_memory_error", "gpu_stuck", "nvlink_fault"):
                    cause, confidence = found.cause, max(confidence, found.confidence)
                    evidence += found.evidence[:2]
            if s.ranks:
                who = f"rank {s.ranks[0]} {HANG_WORDS[s.how]}" if len(s.ranks) == 1 else f"ranks {names(s.ranks)}"
                evidence.append(Evidence(text=who if len(s.ranks) == 1 else f"{who}: at least one {HANG_WORDS[s.how]}"))
            return Verdict(
                cause=cause,
                score=s.deadline_ms,
                confidence=confidence,
                victims=s.waiting,
                summary=f"job stands still: {subject.label()} {HANG_WORDS[s.how]}; {s.waiting} ranks wait",
                evidence=(*evidence, *self._view.missing(self._assembly)),
            )

        return Claim(HANG, place, s.since_ms, say)


def _slowdown(now_us: float, past_us: float) -> float | None:
    return round(now_us / past_us, 3) if past_us > 0 and now_us == now_us else None
