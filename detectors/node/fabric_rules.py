"""What a network port's readings alone say: it runs slower or narrower than it could, or its link has errors.

Up and down are events (`event_rules`); congestion is no fault of a port and is not judged here: marked packets and
notifications are how RoCE works.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from detectors.compile import compiled
from detectors.condition import Float32
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
    if episodes.idle(SLOWER, ERRORS) and _nothing_to_see(values, *_places(matrix.columns)):
        return said
    for i, name in enumerate(matrix.rows):
        row = dict(zip(matrix.columns, values[i].tolist(), strict=True))
        subject = Subject(scope="link", node=frame.node, link=name)
        for seen in (*_speed(name, row), *_errors(name, row)):
            said += episodes.observe(seen.rule, subject, seen.active, frame.ts_ms, seen.verdict)
    return said


@lru_cache(maxsize=64)
def _places(columns: tuple[str, ...]) -> tuple[tuple[int, int, int, int], tuple[int, int, int]]:
    """Where the columns that are judged are; -1 for nowhere."""
    at = {name: i for i, name in enumerate(columns)}
    speed, most, lanes, most_lanes = (
        at.get(name, -1) for name in ("speed_bytes_per_s", "speed_most_bytes_per_s", "width_lanes", "width_most_lanes")
    )
    first, second, third = (at.get(name, -1) for name in ERROR_COLUMNS)
    return (speed, most, lanes, most_lanes), (first, second, third)


@compiled
def _nothing_to_see(values: Float32, speeds: tuple[int, int, int, int], errors: tuple[int, int, int]) -> bool:
    """Whether no rule holds for any port: the usual case, told without a look at each."""
    speed, most, lanes, most_lanes = speeds
    for r in range(values.shape[0]):
        row = values[r]
        if speed >= 0 and most >= 0 and not (np.isnan(row[speed]) or np.isnan(row[most])):
            if row[speed] < SAME * row[most]:
                return False
            if lanes >= 0 and most_lanes >= 0 and row[lanes] < row[most_lanes]:
                return False
        for column in errors:
            if column >= 0 and row[column] > 0:
                return False
    return True


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
