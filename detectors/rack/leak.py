"""Leaks, and leak detectors that tell nothing: silence is not dryness."""

import numpy as np

from detectors.rack.base import RackRule, Signs, by_node, of_rack
from detectors.rack.view import HOLD_MS, RackView
from schemas.finding import Evidence

RETIRED_MS = 3_600_000
"""A detector that was not heard for an hour was taken away with its tray."""

WARNING = 1.0


def _wet(view: RackView, warning_only: bool) -> Signs:
    """Each tray, or the rack, of which a detector told something; wet ones are signs. A detector that says warning
    counts for the warning rule alone, so that a drop is no flood."""
    leak = view.leak
    told, now, status = leak.told("leak_detected"), leak.now("leak_detected"), leak.now("status_code")
    minor = status == WARNING
    wet = told & (now > 0) & (minor if warning_only else ~minor)

    def say(i: int) -> Evidence:
        how = "warns of a leak" if warning_only else "reports a leak"
        return Evidence(text=f"leak detector {leak.rows[i]} {how}", metric="leak_detected", value=1.0)

    return by_node(leak, told, wet, say)


def _mute(view: RackView) -> Signs:
    """Detectors that say they do not work, say nothing where they said something, or are not heard any more."""
    leak = view.leak
    ago_ms = leak.silent_ms("leak_detected", view.ts_ms)
    spoke = ago_ms < RETIRED_MS
    failed = leak.now("sensor_failed") > 0
    gone = spoke & ~failed & (leak.mute("leak_detected") | (ago_ms > HOLD_MS))

    def texts() -> list[Evidence]:
        said = {True: "says that it does not work", False: "reports nothing any more"}
        return [
            Evidence(text=f"leak detector {leak.rows[i]} {said[bool(failed[i])]}", metric="sensor_failed", value=1.0)
            for i in np.flatnonzero(failed | gone)
        ]

    return of_rack(spoke | failed, texts())


LEAK = RackRule(
    "leak",
    "cooling",
    "leak",
    0.95,
    "leak",
    lambda view: _wet(view, warning_only=False),
    over_s=0.0,
    least=1,
    clear_s=60.0,
    at_once=True,
)
"""A single alert is enough (NVIDIA's infra-controller acts on one); it is over when dry for a minute."""

LEAK_WARNING = RackRule(
    "leak_warning",
    "cooling",
    "leak",
    0.7,
    "leak",
    lambda view: _wet(view, warning_only=True),
    over_s=0.0,
    least=1,
    clear_s=60.0,
    at_once=True,
    runner_up="sensor_fault",
)

LEAK_SENSOR = RackRule(
    "leak_sensor", "cooling", "sensor_fault", 0.6, "leak", _mute, over_s=60.0, share=5 / 6, clear_s=60.0
)
"""A sensor is blamed after a minute: controllers restart, polls get lost."""
