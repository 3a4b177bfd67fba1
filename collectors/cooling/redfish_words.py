"""What vendors' words mean: the state of a leak detector, of a level, of a coolant."""

from collectors.cooling.redfish_values import ABSENT, OFF, Document, enabled, get, health_of
from collectors.rates import Value

DRY = frozenset(("ok", "dry", "normal", "noleak", "none", "notdetected", "inactive", "good", "healthy", "clear"))
WARNING = frozenset(("warning", "caution", "minor"))
WET = frozenset(
    (
        "critical", "wet", "leak", "leaking", "leakdetected", "detected", "moisturedetected", "fluiddetected",
        "liquiddetected", "waterdetected", "alarm", "alert", "tripped", "triggered", "active", "major", "severe",
    )
)  # fmt: skip
BROKEN = frozenset(
    (
        "unavailable", "absent", "disabled", "fault", "faulted", "failed", "failure", "error", "notpresent",
        "disconnected", "cabledisconnected", "opencircuit", "open", "shorted", "unknown", "notavailable", "na",
    )
)  # fmt: skip
"""Words in small letters without spaces and signs. DMTF's five are OK, Warning, Critical, Unavailable, Absent; a GB200
says LeakDetected."""


def leak_values(detector: Document) -> dict[str, Value]:
    """Section `leak` of one detector: `leak_detected`, `sensor_failed`, `status_code`.

    A detector that is not there, not enabled, or speaks in words that nobody knows is a failed sensor, never dry; an
    unknown word with a health of Warning or Critical is a leak. Dry by word and ill by health is a failed sensor too.
    """
    health = health_of(detector)
    word = _word(get(detector, "DetectorState"))
    flag = get(detector, "LeakDetected")
    if not word and isinstance(flag, bool):
        word = "leak" if flag else "dry"
    if not enabled(detector) or word in BROKEN:
        return {"leak_detected": OFF, "sensor_failed": 1.0, "status_code": ABSENT if health is None else health}
    if not word:
        if health is None:
            return {"leak_detected": ABSENT, "sensor_failed": ABSENT, "status_code": ABSENT}
        return _said(health > 0, health)
    if word in DRY or word.startswith(("noleak", "noliquid", "nomoisture", "noalarm", "nofluid", "nowater")):
        if health == 2.0:
            return {"leak_detected": OFF, "sensor_failed": 1.0, "status_code": health}
        return _said(False, health or 0.0)
    if word in WARNING:
        return _said(True, 1.0)
    if word in WET or "leak" in word:
        return _said(True, 2.0)
    if health:
        return _said(True, health)
    return {"leak_detected": "unknown_state", "sensor_failed": 1.0, "status_code": ABSENT if health is None else health}


def level_code(word: object) -> float | None:
    """CoolantLevelStatus, FluidLevelStatus, CoolantQuality as 0 OK, 1 warning, 2 critical; None for anything else."""
    return {"ok": 0.0, "warning": 1.0, "critical": 2.0}.get(_word(word))


def _said(wet: bool, code: float) -> dict[str, Value]:
    return {"leak_detected": float(wet), "sensor_failed": 0.0, "status_code": code}


def _word(value: object) -> str:
    return "".join(c for c in value.lower() if c.isalnum()) if isinstance(value, str) else ""
