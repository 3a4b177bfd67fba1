"""What a network port's readings alone say: it runs slower or narrower than it could, or its link has errors.

Up and down are events (`event_rules`); congestion is no fault of a port and is not judged here: marked packets and
notifications are how RoCE works.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from detectors.episode import Episodes, Persistence, Rule, Verdict
from schemas.causes import CAUSES
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import NodeFrame

SLOWER = Rule("port.speed", "hardware", Persistence(k=8, n=10, clear=10))
"""Eight of ten seconds: a link that trains anew runs slower for a moment."""

ERRORS = Rule("port.errors", "hardware", Persistence(k=3, n=6, clear=6))
"""Three of six readings, which come every ten seconds: forward error correction leaves a healthy link without symbol
errors, a single burst is a plugged cable."""

ERROR_COLUMNS = ("symbol_errors_per_s", "integrity_errors_per_s", "recoveries_per_s")
"""Errors of the link itself. Receive errors and discards have other causes too (a peer, congestion), and a healthy H100
node shows some of them."""

SPEED_SURE, ERRORS_SURE = 0.8, 0.6

SAME = 0.99
"""Speeds are compared as float32."""


class _Seen(NamedTuple):
    """One rule on one port in one frame."""

    rule: Rule
    active: bool
    verdict: Callable[[], Verdict]


def port_findings(frame: NodeFrame, episodes: Episodes) -> list[Finding]:
    """Judge all ports of one frame; what was not read in it is not judged."""
    matrix = frame.sections.get("fabric")
    if matrix is None:
        return []
    values = matrix.values()
    said: list[Finding] = []
    for i, name in enumerate(matrix.rows):
        row = dict(zip(matrix.columns, values[i].tolist(), strict=True))
        subject = Subject(scope="link", node=frame.node, link=name)
        for seen in (*_speed(name, row), *_errors(name, row)):
            said += episodes.observe(seen.rule, subject, seen.active, frame.ts_ms, seen.verdict)
    return said


def _speed(name: str, row: dict[str, float]) -> Iterator[_Seen]:
    speed, most = row.get("speed_bytes_per_s", np.nan), row.get("speed_most_bytes_per_s", np.nan)
    lanes, most_lanes = row.get("width_lanes", np.nan), row.get("width_most_lanes", np.nan)
    if np.isnan(speed) or np.isnan(most):
        return
    slower = speed < SAME * most or lanes < most_lanes

    def say() -> Verdict:
        text = (
            f"{name} runs at {speed * 8e-9:.0f} Gb/s over {lanes:.0f} lanes; it and its likes can do "
            f"{most * 8e-9:.0f} Gb/s over {most_lanes:.0f}"
        )
        evidence = Evidence(text=text, metric="speed_bytes_per_s", value=speed, baseline=most, unit="bytes/s")
        return _verdict(SPEED_SURE, most / max(speed, 1.0), text, evidence)

    yield _Seen(SLOWER, slower, say)


def _errors(name: str, row: dict[str, float]) -> Iterator[_Seen]:
    rates = {column: row[column] for column in ERROR_COLUMNS if not np.isnan(row.get(column, np.nan))}
    if not rates:
        return

    def say() -> Verdict:
        worst = max(rates, key=lambda column: rates[column])
        words = worst.removesuffix("_per_s").replace("_", " ")
        text = f"{name} has {rates[worst]:.3g} {words} a second"
        evidence = Evidence(text=text, metric=worst, value=rates[worst], baseline=0.0, unit="1/s")
        return _verdict(ERRORS_SURE, sum(rates.values()), text, evidence)

    yield _Seen(ERRORS, sum(rates.values()) > 0, say)


def _verdict(confidence: float, score: float, text: str, evidence: Evidence) -> Verdict:
    return Verdict(
        cause="fabric_link",
        score=score,
        confidence=confidence,
        summary=f"{CAUSES['fabric_link'].words}: {text}"[:300],
        evidence=(evidence,),
    )
