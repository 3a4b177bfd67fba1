"""Who does not report: a silent node, a partition that fell silent, a node with a wrong clock.

Judged against the other nodes' ticks, never against this machine's clock, and only while the worker keeps up: a
worker that lags sees everybody late.
"""

from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.watermark import GRACE_MS, NodeClock, Watermark
from schemas.finding import Evidence, Finding, Subject

LAG_LIMIT_S = 5.0
"""A worker further behind than this judges nobody's silence."""

SILENT_TICKS = 3
"""Ticks that may be missing: one lost to a slow driver call, one to a resend, the third is silence."""

SILENT = Rule("silence", "hardware", Persistence(k=1, n=1, clear=10))
"""Ten judgements in a row must find the node there again: longer than a stray record takes to become silence anew."""

PARTITION_SILENT = Rule("silence", "degradation", Persistence(k=1, n=1, clear=10))

CLOCK_WRONG = Rule("clock", "degradation", Persistence(k=10, n=10, clear=10))
"""Ten judgements in a row: after a pause of the whole fleet the first nodes back look wrong for one tick."""


class SilenceDetector:
    """The silence of the nodes of one partition. Call `judge` about once a tick."""

    def __init__(self, cluster: str, partition: str, tick_ms: int = 1000) -> None:
        self._partition = partition
        self._tick_ms = tick_ms
        self._episodes = Episodes(cluster)
        self._heard: dict[str, int] = {}
        self._quiet: dict[str, int] = {}

    def judge(self, watermark: Watermark, lag_s: float) -> list[Finding]:
        """What is to be said now. `lag_s` is how far the worker's input is behind now.

        A node is silent when it is three ticks behind where the others are (less the grace) and none of its records
        has come for three judgements: one that catches up is heard, so it is late, not silent. Silent nodes lose
        their vote in `watermark`. More than half of the nodes silent is one finding about the partition; the nodes'
        own findings then wait.
        """
        front = watermark.front_ms()
        if front is None:
            return []
        now_ms = max(front, watermark.value_ms or 0)
        said = [
            finding
            for node in watermark.forget()
            for rule in (SILENT, CLOCK_WRONG)
            for finding in self._episodes.close(rule, _node(node), now_ms)
        ]
        timely = lag_s < LAG_LIMIT_S
        silent = self._silent(watermark, now_ms, timely)
        known = len(watermark.nodes)
        widespread = known > 2 and 2 * len(silent) > known
        said += self._episodes.observe(
            PARTITION_SILENT,
            Subject(scope="cluster", group=self._partition),
            widespread if timely else None,
            now_ms,
            lambda: _partition_verdict(self._partition, sorted(silent), known),
        )
        for node, clock in watermark.nodes.items():
            is_silent = node in silent
            said += self._episodes.observe(
                SILENT,
                _node(node),
                None if not timely or (widespread and is_silent) else is_silent,
                now_ms,
                lambda clock=clock, node=node: _silent_verdict(node, now_ms - clock.seen_ms),  # type: ignore[misc]
                onset_ms=min(clock.newest_ms, now_ms),
            )
            said += self._episodes.observe(
                CLOCK_WRONG,
                _node(node),
                clock.wrong if timely else None,
                now_ms,
                lambda clock=clock, node=node: _clock_verdict(node, clock.newest_ms - now_ms),  # type: ignore[misc]
            )
        return said

    def decisions(self) -> bytes:
        """What is open: to be written through with every finding."""
        return self._episodes.save()

    def restore(self, decisions: bytes | None) -> tuple[Finding, ...]:
        """Continue from `decisions`; returns the last words, to be sent once more with the same id and revision.

        Raises StateError where these are none.
        """
        return self._episodes.resume(decisions)

    def _silent(self, watermark: Watermark, now_ms: int, timely: bool) -> set[str]:
        """The nodes that are silent now; also counts the judgements in which a node was not heard."""
        heard = {node: clock.heard for node, clock in watermark.nodes.items()}
        if not timely:
            self._heard, self._quiet = heard, {}
            return set()
        self._quiet = {
            node: self._quiet.get(node, 0) + 1 for node, count in heard.items() if self._heard.get(node) == count
        }
        self._heard = heard
        limit = now_ms - GRACE_MS - SILENT_TICKS * self._tick_ms
        silent = {node for node, clock in watermark.nodes.items() if self._is_silent(node, clock, limit)}
        for node in silent:
            watermark.mute(node)
        return silent

    def _is_silent(self, node: str, clock: NodeClock, limit_ms: int) -> bool:
        if clock.muted:
            return True
        behind = clock.seen_ms if clock.wrong else clock.newest_ms
        return behind < limit_ms and self._quiet.get(node, 0) >= SILENT_TICKS


def _node(node: str) -> Subject:
    return Subject(scope="node", node=node)


def _silent_verdict(node: str, age_ms: int) -> Verdict:
    text = f"no record from {node} for {age_ms / 1000:.0f} s while the other nodes of its partition report"
    return Verdict(
        cause="node_lost",
        confidence=0.7,
        runner_up="pipeline",
        score=age_ms / 1000,
        summary=f"node {node} is silent",
        evidence=(Evidence(text=text, value=age_ms / 1000, unit="s"),),
    )


def _partition_verdict(partition: str, silent: list[str], known: int) -> Verdict:
    names = ", ".join(silent[:5]) + (", ..." if len(silent) > 5 else "")
    return Verdict(
        cause="pipeline",
        confidence=0.8,
        runner_up="node_lost",
        score=len(silent) / known,
        summary=f"{len(silent)} of {known} nodes of {partition} are silent at once",
        evidence=(Evidence(text=f"silent: {names}", value=float(len(silent)), peers=float(known)),),
    )


def _clock_verdict(node: str, offset_ms: int) -> Verdict:
    text = f"ticks of {node} are {offset_ms / 1000:+.0f} s from the median of its partition"
    return Verdict(
        cause="clock_wrong",
        confidence=0.9,
        score=abs(offset_ms) / 1000,
        summary=f"the clock of node {node} is wrong",
        evidence=(Evidence(text=text, value=offset_ms / 1000, baseline=0.0, unit="s"),),
    )
