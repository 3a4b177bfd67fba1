"""From "active this tick" to a verdict's life: open, change, heartbeat, close, with hysteresis and a persisted onset.

Every detector says of a subject, tick by tick (or step by step), whether its condition holds; `Episodes` decides when
that is worth a finding and gives it an id that survives restarts. It keeps memory only for subjects in trouble.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec

from detectors.state import unpack
from schemas.causes import Cause, Kind
from schemas.finding import Evidence, Finding, Subject
from schemas.identity import episode_id

HEARTBEAT_MS = 10_000
"""An open verdict is repeated at most this often in event time (the contract of the topic `findings`); the first repeat
comes after half of it, for it is what tells the incident that a verdict has held for its five seconds
(`incident.book.CONFIRM_MS`): live, time passes there with the verdicts."""

GAP_MS = 60_000
"""A window that was not fed for longer than this says nothing about now and starts anew. Longer than the longest
training step (10 s) with room for a checkpoint; a window restored from an old state must not open anything."""

CLOSED_KEPT_MS = 180_000
"""How long a closed verdict is remembered, so that a restart can repeat it: three times the checkpoint interval."""


class Persistence(NamedTuple):
    """Hysteresis counted in observations: opens at `k` active ones of the last `n`, closes after `clear` inactive ones
    in a row. The default opens and closes at once. `gap_ms`: observations further apart belong to no one window."""

    k: int = 1
    n: int = 1
    clear: int = 1
    gap_ms: int = GAP_MS


class Rule(NamedTuple):
    """What is watched: `detector` and `kind` go into the finding and its id, so one rule and subject is one episode."""

    detector: str
    kind: Kind
    persistence: Persistence = Persistence()


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a detector says of a subject while its condition holds; the fields are those of `Finding`."""

    cause: Cause = "unknown"
    score: float = 0.0
    confidence: float = 0.0
    runner_up: Cause | None = None
    victims: int = 0
    slowdown: float | None = None
    summary: str = ""
    evidence: tuple[Evidence, ...] = ()
    onset_step: int | None = None
    detected_step: int | None = None


class Episode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One rule and subject in trouble. `last` is the newest finding said; None while still below the threshold.

    `window` holds one bit per observation, the newest lowest; `hits` the times of the set ones, the oldest first.
    """

    detector: str
    kind: Kind
    subject: Subject
    window: int = 0
    hits: list[int] = []
    quiet: int = 0
    seen_ms: int = 0
    last: Finding | None = None

    @property
    def is_open(self) -> bool:
        return self.last is not None and self.last.state != "close"

    def copy(self) -> "Episode":
        return msgspec.structs.replace(self, hits=list(self.hits))


_Key = tuple[str, str, Subject]


class _Decided(msgspec.Struct, kw_only=True):
    version: Literal[1] = 1
    episodes: tuple[Episode, ...]


class Episodes:
    """The episodes of one detector instance in one cluster.

    Findings come back in the order in which they must be sent. Ids depend on rule, subject and onset only.
    """

    def __init__(self, cluster: str, heartbeat_ms: int = HEARTBEAT_MS) -> None:
        self._cluster = cluster
        self._heartbeat_ms = heartbeat_ms
        self._episodes: dict[_Key, Episode] = {}

    def observe(
        self,
        rule: Rule,
        subject: Subject,
        active: bool | None,
        ts_ms: int,
        say: Callable[[], Verdict] | None = None,
        onset_ms: int | None = None,
    ) -> list[Finding]:
        """Take one observation; return what is to be said now (mostly nothing).

        `active` None means "cannot be judged": nothing opens or closes, an open verdict keeps its heartbeat. `say` is
        called only when the verdict's words are needed; without it the last words are repeated. `onset_ms` overrides
        the default onset (the oldest active observation in the window) at opening. Between heartbeats only another
        cause of no less confidence, or more victims, make a change.
        """
        key = (rule.detector, rule.kind, subject)
        episode = self._episodes.get(key)
        if episode is None or not episode.is_open:
            if not active and (episode is None or not episode.window):
                self._forget(key, episode, ts_ms)
                return []
            if active is None:
                return []
            return self._pending(key, episode, rule, bool(active), ts_ms, say, onset_ms)
        last = episode.last
        assert last is not None
        episode.seen_ms = ts_ms
        if active is not None:
            episode.quiet = 0 if active else episode.quiet + 1
            if episode.quiet >= rule.persistence.clear:
                return [self._say(episode, "close", ts_ms, _verdict(last))]
        verdict = say() if active and say is not None else _verdict(last)
        another = verdict.cause != last.cause and verdict.confidence >= last.confidence
        if another or verdict.victims > last.victims:
            return [self._say(episode, "change", ts_ms, verdict)]
        if abs(ts_ms - last.ts_ms) >= (self._heartbeat_ms // 2 if last.state == "open" else self._heartbeat_ms):
            return [self._say(episode, "heartbeat", ts_ms, verdict)]
        return []

    def close(self, rule: Rule, subject: Subject, ts_ms: int) -> list[Finding]:
        """End the episode of this rule and subject at once, if one is open (the subject has left for good)."""
        key = (rule.detector, rule.kind, subject)
        episode = self._episodes.get(key)
        if episode is None or not episode.is_open:
            self._episodes.pop(key, None)
            return []
        assert episode.last is not None
        return [self._say(episode, "close", ts_ms, _verdict(episode.last))]

    def is_open(self, rule: Rule, subject: Subject) -> bool:
        episode = self._episodes.get((rule.detector, rule.kind, subject))
        return episode is not None and episode.is_open

    def idle(self, *rules: Rule) -> bool:
        """Whether no subject is in trouble under these rules, or any: inactive observations would then change
        nothing."""
        if not self._episodes:
            return True
        known = {(rule.detector, rule.kind) for rule in rules}
        return bool(rules) and not any((detector, kind) in known for detector, kind, _ in self._episodes)

    def open(self, rule: Rule | None = None) -> list[Subject]:
        """The subjects with an open verdict (of `rule`), in the order they opened."""
        return [
            episode.subject
            for (detector, kind, _), episode in self._episodes.items()
            if episode.is_open and (rule is None or (detector, kind) == (rule.detector, rule.kind))
        ]

    def decided(self) -> tuple[Episode, ...]:
        """What must be written through with every finding: open verdicts, and those closed a moment ago."""
        return tuple(episode.copy() for episode in self._episodes.values() if episode.last is not None)

    def pending(self) -> tuple[Episode, ...]:
        """Windows that have not opened a verdict: a checkpoint may lose them."""
        return tuple(episode.copy() for episode in self._episodes.values() if episode.last is None)

    def restore(self, decided: Iterable[Episode] = (), pending: Iterable[Episode] = ()) -> list[Finding]:
        """Replace the memory. Returns the last word on every decided episode, to be sent once more.

        They carry the same id and revision as before, so a reader drops the repeats; the one that a kill kept from
        leaving arrives by this.
        """
        self._episodes = {(e.detector, e.kind, e.subject): e.copy() for e in (*pending, *decided)}
        return [episode.last for episode in self._episodes.values() if episode.last is not None]

    def save(self) -> bytes:
        """`decided` as bytes."""
        return msgspec.msgpack.encode(_Decided(episodes=self.decided()))

    def resume(self, decided: bytes | None, pending: Iterable[Episode] = ()) -> tuple[Finding, ...]:
        """`restore` from what `save` gave; None where nothing was. Raises StateError where it is no such thing."""
        return tuple(self.restore(() if decided is None else unpack(decided, _Decided).episodes, pending))

    def _pending(
        self,
        key: _Key,
        episode: Episode | None,
        rule: Rule,
        active: bool,
        ts_ms: int,
        say: Callable[[], Verdict] | None,
        onset_ms: int | None,
    ) -> list[Finding]:
        if episode is None:
            episode = self._episodes[key] = Episode(detector=rule.detector, kind=rule.kind, subject=key[2], hits=[])
        if abs(ts_ms - episode.seen_ms) > rule.persistence.gap_ms:
            episode.window, episode.hits = 0, []
        if episode.window >> (rule.persistence.n - 1) & 1:
            episode.hits.pop(0)
        episode.window = (episode.window << 1 | active) & ((1 << rule.persistence.n) - 1)
        episode.seen_ms = ts_ms
        if active:
            episode.hits.append(ts_ms)
        if episode.window.bit_count() < rule.persistence.k:
            if not episode.window:
                self._forget(key, episode, ts_ms)
            return []
        onset = onset_ms if onset_ms is not None else episode.hits[0]
        if episode.last is not None and onset <= episode.last.ts_ms:
            onset = ts_ms
        episode.last, episode.window, episode.hits, episode.quiet = None, 0, [], 0
        self._episodes[key] = self._episodes.pop(key)
        return [self._say(episode, "open", ts_ms, say() if say is not None else Verdict(), onset)]

    def _forget(self, key: _Key, episode: Episode | None, ts_ms: int) -> None:
        if episode is not None and (episode.last is None or abs(ts_ms - episode.last.ts_ms) > CLOSED_KEPT_MS):
            del self._episodes[key]

    def _say(self, episode: Episode, state: str, ts_ms: int, verdict: Verdict, onset_ms: int | None = None) -> Finding:
        last = episode.last
        if last is None:
            assert onset_ms is not None
            identity = episode_id(episode.detector, episode.kind, episode.subject, onset_ms)
            revision = 0
        else:
            identity, onset_ms, revision = last.id, last.onset_ms, last.revision + 1
        episode.last = Finding(
            cluster=self._cluster,
            ts_ms=ts_ms,
            id=identity,
            revision=revision,
            detector=episode.detector,
            state=state,  # type: ignore[arg-type]
            kind=episode.kind,
            subject=episode.subject,
            onset_ms=onset_ms,
            **{name: getattr(verdict, name) for name in Verdict.__struct_fields__},
        )
        if state == "close":
            episode.window, episode.hits, episode.quiet = 0, [], 0
            self._forget_closed(ts_ms)
        return episode.last

    def _forget_closed(self, ts_ms: int) -> None:
        """Bound the memory: subjects that are never observed again leave with the next close."""
        for key, episode in list(self._episodes.items()):
            last = episode.last
            old = last is not None and last.state == "close" and abs(ts_ms - last.ts_ms) > CLOSED_KEPT_MS
            if old and not episode.window:
                del self._episodes[key]


def _verdict(finding: Finding) -> Verdict:
    return Verdict(**{name: getattr(finding, name) for name in Verdict.__struct_fields__})
