"""What a rule of a rack is."""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detectors.episode import Persistence, Rule
from detectors.rack.view import Levels, RackView
from schemas.causes import Cause, Kind
from schemas.finding import Evidence
from schemas.metrics import Section

Signs = dict[str, list[Evidence]]
"""What speaks for a rule's cause, by node ("" is the rack itself). One that is judged and has nothing has an empty
list; one that is not there cannot be judged now."""

Mask = NDArray[np.bool_]


class RackRule(NamedTuple):
    """`signs` is asked whenever section `pace` is due, or, `at_once`, whenever it has told anything.

    `share` of the judgements within `over_s` seconds open a finding, of at least `least`; `clear_s` without close it.
    `holds_learning`: what is usual is not learned while it shows. `unless`: the rule whose signs explain these.
    """

    name: str
    kind: Kind
    cause: Cause
    confidence: float
    pace: Section
    signs: Callable[[RackView], Signs]
    over_s: float = 10.0
    share: float = 0.8
    least: int = 3
    clear_s: float = 30.0
    at_once: bool = False
    holds_learning: bool = False
    unless: str = ""
    runner_up: Cause | None = None

    def at_pace(self, pace_ms: float) -> Rule:
        """The rule with its persistence in judgements that come every `pace_ms`."""
        return _at_pace(self, round(pace_ms, -2) or 100.0)


@lru_cache(maxsize=4096)
def _at_pace(rule: RackRule, pace_ms: float) -> Rule:
    n = max(rule.least, round(1000 * rule.over_s / pace_ms))
    k = max(rule.least, math.ceil(n * rule.share - 1e-9))
    clear = max(rule.least, round(1000 * rule.clear_s / pace_ms))
    return Rule(rule.name, rule.kind, Persistence(k=k, n=n, clear=clear, gap_ms=GAP_MS))


GAP_MS = 600_000
"""Controllers that are backed off from are asked every five minutes: two such polls still belong together."""


def of_rack(judged: Mask, evidence: Iterable[Evidence]) -> Signs:
    """Signs of the rack itself; none where nothing could be judged."""
    found = list(evidence)
    return {"": found} if found or judged.any() else {}


def by_node(levels: Levels, judged: Mask, active: Mask, say: Callable[[int], Evidence]) -> Signs:
    """Signs row by row, gathered by the node that a row belongs to."""
    out: Signs = {node: [] for node in {levels.nodes[i] for i in np.flatnonzero(judged).tolist()}}
    for i in np.flatnonzero(active).tolist():
        out.setdefault(levels.nodes[i], []).append(say(i))
    return out


def reading(what: str, metric: str, value: float, usual: float, unit: str) -> Evidence:
    """A reading, with its usual where that is known."""
    known = usual == usual
    text = f"{what} is {value:.4g} {unit}" + (f", usually {usual:.4g}" if known else "")
    return Evidence(text=text, metric=metric, value=float(value), baseline=float(usual) if known else None, unit=unit)
