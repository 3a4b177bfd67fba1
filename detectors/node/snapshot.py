"""What one sample of a GPU says by itself, and beside the other GPUs of its node: for scrapes and short series.

The live rules judge changes (a counter that grows, a clock that falls). A scrape has none; but some readings tell a
lasting fact, whenever they are read: these are the driver's own verdicts and counts since it was loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from detectors.episode import Episodes, Persistence, Rule, Verdict
from detectors.node.reading_rules import DRAIN_AND_RESET, POWER_BRAKE_BIT, REBOOT, RESET, SUSTAINED, THERMAL_BITS
from schemas.causes import CAUSES, Cause, Kind
from schemas.finding import Evidence, Finding, Subject
from schemas.frame import NodeFrame

Values = Mapping[str, float]
"""One GPU's readings by metric; what was not read is not there."""

WORKS_PCT = 50.0
"""A GPU above this utilization has work: idle ones lower their clocks rightfully."""

SLOW_CLOCK = 0.85
"""Of the median clock of the node's other GPUs at work. GPUs of one kind at one power differ by up to a tenth in the
clock they hold; a sixth is more than that."""

LOW_LIMIT = 0.95
"""A power limit lower than the others' by 5 % was set so, and explains a lower clock."""


class Fact(NamedTuple):
    """`holds` gives the words where the fact is told by a GPU's readings, else None."""

    kind: Kind
    cause: Cause
    confidence: float
    holds: Callable[[Values], str | None]


def _flag(name: str, words: str) -> Callable[[Values], str | None]:
    return lambda values: words if values.get(name, 0.0) > 0 else None


def _uncorrectable(values: Values) -> str | None:
    count = values.get("ecc_dbe_count", 0.0)
    return f"{count:.0f} uncorrectable memory errors since the driver was loaded" if count > 0 else None


def _width(values: Values) -> str | None:
    width, most = values.get("pcie_width_lanes"), values.get("pcie_width_most_lanes")
    return f"PCIe link of {width:.0f} lanes, {most:.0f} are possible" if width and most and width < most else None


def _recovery(values: Values) -> str | None:
    wanted = {RESET: "a reset", REBOOT: "a reboot", DRAIN_AND_RESET: "draining and a reset"}
    action = wanted.get(int(values.get("recovery_action", 0.0)))
    return f"the driver asks for {action} of this GPU" if action else None


def _hot(values: Values) -> str | None:
    if not int(values.get("clocks_event_reasons", 0.0)) & THERMAL_BITS:
        return None
    heat = f" at {values['temperature_c']:.0f} C" if "temperature_c" in values else ""
    return f"the clock is held down by heat{heat}"


def _braked(values: Values) -> str | None:
    braked = int(values.get("clocks_event_reasons", 0.0)) & POWER_BRAKE_BIT
    return "the clock is held down by the power brake" if braked else None


LASTING: dict[str, Fact] = {
    "remap_failed": Fact("hardware", "gpu_memory_error", 0.9, _flag("remap_failed", "a memory row cannot be remapped")),
    "unrepairable": Fact("hardware", "gpu_memory_error", 0.9, _flag("memory_unrepairable", "memory beyond repair")),
    "sram": Fact("hardware", "gpu_memory_error", 0.8, _flag("sram_threshold_exceeded", "SRAM errors above the limit")),
    "uncorrectable": Fact("hardware", "gpu_memory_error", 0.7, _uncorrectable),
    "remap_pending": Fact(
        "hardware", "gpu_memory_error", 0.6, _flag("remap_pending", "a memory row waits for a reset")
    ),
    "retirement_pending": Fact(
        "hardware", "gpu_memory_error", 0.6, _flag("retirement_pending", "a memory page waits for a reset")
    ),
    "pcie_width": Fact("hardware", "pcie_degraded", 0.6, _width),
    "recovery_action": Fact("hardware", "unknown", 0.5, _recovery),
}  # fmt: skip
"""What holds whenever it is read."""

MOMENTARY: dict[str, Fact] = {
    "thermal": Fact("degradation", "thermal_throttle", 0.6, _hot),
    "power_brake": Fact("degradation", "power_brake", 0.6, _braked),
}
"""What holds at the moment of one sample; in a series the live rules judge how long."""

CLOCK = Rule("clock_peers", "degradation", SUSTAINED)


def snapshot(episodes: Episodes, frame: NodeFrame, facts: Mapping[str, Fact]) -> list[Finding]:
    """The findings of one sample of a node."""
    said: list[Finding] = []
    for gpu, values in readings(frame).items():
        for name, fact in facts.items():
            words = fact.holds(values)
            if words is None:
                continue
            verdict = Verdict(
                cause=fact.cause,
                confidence=fact.confidence,
                score=1.0,
                summary=f"{words} (GPU {gpu})",
                evidence=(Evidence(text=words, metric=name),),
            )
            subject = Subject(scope="gpu", node=frame.node, gpu=gpu)
            rule = Rule(f"snapshot.{name}", fact.kind, Persistence())
            said += episodes.observe(rule, subject, True, frame.ts_ms, lambda verdict=verdict: verdict)  # type: ignore[misc]
    return said


def slow_clocks(episodes: Episodes, frame: NodeFrame) -> list[Finding]:
    """Of a node's GPUs at work, those whose clock stays far below that of the others: once per sample of a series.

    Nobody's past is needed, so it tells GPUs that were slow before the series began. Temperatures are not compared:
    they differ by slot.
    """
    at_work = {
        gpu: values
        for gpu, values in readings(frame).items()
        if values.get("gpu_utilization_pct", 0.0) > WORKS_PCT and values.get("sm_clock_mhz", 0.0) > 0
    }
    said: list[Finding] = []
    for gpu, values in at_work.items():
        others = [v for other, v in at_work.items() if other != gpu]
        if len(others) < 2:
            continue
        usual = _median(others, "sm_clock_mhz")
        active = values["sm_clock_mhz"] < SLOW_CLOCK * usual
        subject = Subject(scope="gpu", node=frame.node, gpu=gpu)
        said += episodes.observe(
            CLOCK,
            subject,
            active,
            frame.ts_ms,
            lambda gpu=gpu, values=values, others=others, usual=usual: _clock_verdict(gpu, values, others, usual),  # type: ignore[misc]
        )
    return said


def _clock_verdict(gpu: str, values: Values, others: Sequence[Values], usual: float) -> Verdict:
    clock = values["sm_clock_mhz"]
    cause: Cause = "gpu_degraded"
    evidence = [
        Evidence(
            text=f"SM clock {clock:.0f} MHz at work, the node's other GPUs at work {usual:.0f} MHz",
            metric="sm_clock_mhz",
            value=clock,
            peers=usual,
            unit="MHz",
        )
    ]
    limit, limits = values.get("power_limit_w"), _median(others, "power_limit_w")
    if (words := _hot(values)) is not None:
        cause = "thermal_throttle"
        evidence.append(Evidence(text=words, metric="clocks_event_reasons"))
    elif (words := _braked(values)) is not None:
        cause = "power_brake"
        evidence.append(Evidence(text=words, metric="clocks_event_reasons"))
    elif limit is not None and limit < LOW_LIMIT * limits:
        cause = "power_brake"
        text = f"its power limit is {limit:.0f} W, that of the others {limits:.0f} W"
        evidence.append(Evidence(text=text, metric="power_limit_w", value=limit, peers=limits, unit="W"))
    reason = f": {CAUSES[cause].words}" if cause != "gpu_degraded" else ""
    return Verdict(
        cause=cause,
        confidence=0.8 if reason else 0.6,
        score=1 - clock / usual,
        summary=f"GPU {gpu} works at {clock / usual:.0%} of its neighbours' clock{reason}",
        evidence=tuple(evidence),
    )


def readings(frame: NodeFrame) -> dict[str, dict[str, float]]:
    """What was read of each GPU."""
    matrix = frame.sections.get("gpu")
    if matrix is None:
        return {}
    return {
        gpu: {name: value for name, value in zip(matrix.columns, row, strict=True) if value == value}
        for gpu, row in zip(matrix.rows, matrix.values().tolist(), strict=True)
    }


def _median(of: Sequence[Values], name: str) -> float:
    heard = [values[name] for values in of if name in values]
    return float(np.median(heard)) if heard else float("nan")
