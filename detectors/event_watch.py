"""The events of one node: which finding each opens, keeps open or closes, and what happened lately to each GPU."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from detectors.episode import Episode, Episodes
from detectors.event_rules import (
    ENDS,
    FAILED,
    FLAP_MS,
    FLAPS,
    QUIET_MS,
    SPOOL,
    SURE,
    EventCause,
    event_rule,
    event_verdict,
    label,
    link_of,
    meaning,
)
from schemas.causes import Cause, Kind, Scope
from schemas.event import Event
from schemas.finding import Finding, Subject
from schemas.identity import digest
from schemas.xid import RECOVERY

RECENT_MS = 300_000
RECENT_EVENTS = 8
"""What features repeat of a GPU's events: at most eight of the last five minutes."""

SEEN_EVENTS = 64
"""How many event identities are remembered, to know a repeat by: a batch sent again is shorter."""

RETURN_MS = 60_000
"""A GPU that was lost is not back before a minute has passed, whatever it answers."""


LONGEST_MS = 86_400_000
"""A collector or a spool says once that it fails and once that it is well; after a day the second word was lost."""


class Trouble(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One cause on one subject: its newest event, how many there were, and when the last was."""

    subject: Subject
    kind: Kind
    cause: Cause
    confidence: float
    event: Event
    count: int
    last_ms: int
    up: bool = False
    """A link that is up just now, but comes and goes."""

    @property
    def means(self) -> EventCause:
        return EventCause(self.kind, self.cause, self.confidence)


class EventState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What must survive a kill."""

    troubles: tuple[Trouble, ...] = ()
    seen: tuple[str, ...] = ()
    episodes: tuple[Episode, ...] = ()
    downs: dict[str, tuple[int, ...]] = {}


class EventWatch:
    """Turns a node's events into findings. `note` takes an event, `tick` the passing of time."""

    def __init__(self, cluster: str, node: str) -> None:
        self._node = node
        self._episodes = Episodes(cluster)
        self._troubles: dict[tuple[Cause, Subject], Trouble] = {}
        self._seen: dict[str, None] = {}
        self._recent: dict[str, list[tuple[str, int]]] = {}
        self._downs: dict[str, tuple[int, ...]] = {}

    def note(self, event: Event, gpu: str, now_ms: int) -> list[Finding]:
        """Take one event; `gpu` is the UUID it is about ("" for none), `now_ms` the newest tick of the node.

        A repeat says nothing, nor does an event that was over long ago (a spool that drains late).
        """
        mark = digest(*event.identity)
        if mark in self._seen:
            return []
        self._seen[mark] = None
        if len(self._seen) > SEEN_EVENTS:
            del self._seen[next(iter(self._seen))]
        if gpu:
            self._recent[gpu] = [*self._recent.get(gpu, ()), (label(event), event.ts_ms)][-RECENT_EVENTS:]
        if event.kind in ("gpu_back", "gpu_reset"):
            return self._close(gpu, event.ts_ms)
        if event.kind == "hang_over":
            return self._over(event.job, event.ts_ms)
        if event.kind in ENDS:
            return self._well_again(ENDS[event.kind], event.detail.get("collector", ""), event.ts_ms)
        if event.kind == "agent_started":  # which says anew what is wrong with itself and its collectors
            return self._well_again(FAILED + SPOOL, "", event.ts_ms)
        if event.kind == "link_up":
            return self._link_up(link_of(event), event.ts_ms)
        means = meaning(event)
        if means is None or event.ts_ms < now_ms - QUIET_MS:
            return []
        if event.kind == "xid" and event.code == RECOVERY and self._in_trouble(gpu):
            return []  # what to do about the trouble that is known: the incident notes it
        subject = self._subject(event, gpu)
        if event.kind == "link_down" and self._flaps(subject.link, event.ts_ms):
            means = means._replace(confidence=SURE)
        known = self._troubles.get((means.cause, subject))
        trouble = self._troubles[means.cause, subject] = Trouble(
            subject=subject,
            kind=means.kind,
            cause=means.cause,
            confidence=means.confidence,
            event=event,
            count=_stands_for(event) + (known.count if known else 0),
            last_ms=max(event.ts_ms, known.last_ms if known else 0),
        )
        return self._observe(trouble, True, event.ts_ms)

    def tick(self, now_ms: int, gpus: Sequence[str], here: NDArray[np.bool_]) -> list[Finding]:
        """Heartbeats and ends. `here` says of every one of the node's `gpus` whether it gave readings."""
        said: list[Finding] = []
        if not self._troubles:
            return said
        answers = dict(zip(gpus, here.tolist(), strict=True))
        for key, trouble in list(self._troubles.items()):
            quiet_ms = now_ms - trouble.last_ms
            over = quiet_ms > (LONGEST_MS if trouble.event.kind in FAILED + SPOOL else QUIET_MS)
            if trouble.up:
                over = quiet_ms > FLAP_MS
            if trouble.cause == "gpu_lost":
                over = quiet_ms > RETURN_MS and answers.get(trouble.subject.gpu, False)
            said += self._observe(trouble, not over, now_ms)
            if over and not self._episodes.is_open(event_rule(trouble.means), trouble.subject):
                del self._troubles[key]
        return said

    def lost(self, gpu: str) -> bool:
        """Whether an event has already said that this GPU is gone."""
        return any(cause == "gpu_lost" and subject.gpu == gpu for cause, subject in self._troubles)

    def recent(self, gpu: str, now_ms: int) -> tuple[str, ...]:
        """What happened to a GPU lately, the newest last: "xid:79@3s"."""
        events = self._recent.get(gpu)
        if not events:
            return ()
        young = [(name, ts_ms) for name, ts_ms in events if now_ms - ts_ms <= RECENT_MS]
        if young:
            self._recent[gpu] = young
        else:
            del self._recent[gpu]
        return tuple(f"{name}@{max(0, now_ms - ts_ms) // 1000}s" for name, ts_ms in young)

    def state(self) -> EventState:
        return EventState(
            troubles=tuple(msgspec.structs.replace(trouble) for trouble in self._troubles.values()),
            seen=tuple(self._seen),
            episodes=self._episodes.decided(),
            downs=dict(self._downs),
        )

    def restore(self, state: EventState) -> list[Finding]:
        self._troubles = {(t.cause, t.subject): msgspec.structs.replace(t) for t in state.troubles}
        self._seen = dict.fromkeys(state.seen)
        self._downs = dict(state.downs)
        return self._episodes.restore(state.episodes)

    def _subject(self, event: Event, gpu: str) -> Subject:
        if event.kind == "hang":
            # About a rank on whichever node that is: dumps and RAS see the whole job.
            scope: Scope = "job" if event.rank is None else "rank"
            return Subject(scope=scope, job=event.job, rank=event.rank)
        if gpu:
            return Subject(scope="gpu", node=self._node, gpu=gpu)
        if link := link_of(event):
            return Subject(scope="link", node=self._node, link=link)
        return Subject(scope="node", node=self._node)

    def _in_trouble(self, gpu: str) -> bool:
        return bool(gpu) and any(trouble.subject.gpu == gpu for trouble in self._troubles.values())

    def _flaps(self, link: str, ts_ms: int) -> bool:
        """Whether this is one time too often that the link goes down."""
        young = tuple(at for at in self._downs.get(link, ()) if ts_ms - at <= FLAP_MS)
        self._downs[link] = (*young, ts_ms)[-FLAPS:]
        return len(self._downs[link]) >= FLAPS

    def _link_up(self, link: str, ts_ms: int) -> list[Finding]:
        """A link that is back is well, unless it comes and goes: then it is well when it has stayed for long enough."""
        said = []
        for key, trouble in list(self._troubles.items()):
            if not link or trouble.subject.link != link or trouble.event.kind != "link_down":
                continue
            flapping = [at for at in self._downs.get(link, ()) if ts_ms - at <= FLAP_MS]
            if len(flapping) < FLAPS:
                said += self._episodes.close(event_rule(trouble.means), trouble.subject, ts_ms)
                del self._troubles[key]
            else:
                trouble.up = True
        return said

    def _close(self, gpu: str, ts_ms: int) -> list[Finding]:
        """The GPU was reset or found again: what was wrong with it is over until it is said anew."""
        said = []
        for key, trouble in list(self._troubles.items()):
            if gpu and trouble.subject.gpu == gpu:
                said += self._episodes.close(event_rule(trouble.means), trouble.subject, ts_ms)
                del self._troubles[key]
        return said

    def _well_again(self, kinds: tuple[str, ...], collector: str, ts_ms: int) -> list[Finding]:
        """What events of these kinds said is over: of one collector, or ("") of all of them and of the agent."""
        said = []
        for key, trouble in list(self._troubles.items()):
            own = not collector or trouble.event.detail.get("collector", "") == collector
            if trouble.event.kind in kinds and own:
                said += self._episodes.close(event_rule(trouble.means), trouble.subject, ts_ms)
                del self._troubles[key]
        return said

    def _over(self, job: str, ts_ms: int) -> list[Finding]:
        """The job goes on: its standstill is over."""
        said = []
        for key, trouble in list(self._troubles.items()):
            if trouble.kind == "hang" and trouble.subject.job == job:
                said += self._episodes.close(event_rule(trouble.means), trouble.subject, ts_ms)
                del self._troubles[key]
        return said

    def _observe(self, trouble: Trouble, active: bool, ts_ms: int) -> list[Finding]:
        return self._episodes.observe(
            event_rule(trouble.means),
            trouble.subject,
            active,
            ts_ms,
            lambda: event_verdict(trouble.event, trouble.means, trouble.count),
            onset_ms=trouble.event.ts_ms,
        )


def _stands_for(event: Event) -> int:
    """How many events this one is: the last one of a flood stands for those that were left out."""
    folded = event.detail.get("folded", "")
    # Longer ones are no count, and would be too large for a record.
    return int(folded) if folded.isdecimal() and len(folded) < 10 else 1
