"""The demo: a simulated fleet on this machine's own broker and database, one fault, the verdict beside the truth."""

from collections.abc import Callable
from typing import Any

import msgspec

from lockstep.progress import left
from runtime.clock import Clock
from schemas import Incident
from schemas.readable import readable
from simulator.settings import FleetSettings
from simulator.target import Truth
from storage.client import Client
from storage.queries import incidents, position

QUIET_S = 30.0
"""Event time without a first incident after which the demo gives up, beyond the time the fault needs to bite."""

SETTLE_S = 12.0
"""Event time the verdict may still sharpen after the first confirmed incident (a cause needs its evidence)."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was put in, what was found, and how long after its onset (event seconds; None where nothing was found)."""

    truth: Truth
    incidents: tuple[Incident, ...]
    correct: bool
    delay_s: float | None
    samples: int
    event_s: float
    wall_s: float

    def plain(self) -> dict[str, Any]:
        """For `--format json`."""
        return {
            "truth": readable(self.truth),
            "correct": self.correct,
            "detection_delay_s": self.delay_s,
            "incidents": [readable(incident) for incident in self.incidents],
            "gpu_samples": self.samples,
            "simulated_s": self.event_s,
            "wall_s": round(self.wall_s, 1),
        }


def watch(
    client: Client,
    fleet: FleetSettings,
    truth: Truth,
    until_s: float,
    clock: Clock,
    tend: Callable[[], None],
    progress: Callable[[str, object], None],
) -> Verdict:
    """Follow the fleet in ClickHouse until the fault is found and explained, or `until_s` of event time has passed."""
    began = clock.monotonic()
    settled_at: float | None = None
    while True:
        tend()
        newest_ms, samples = position(client)
        now_s = max(0.0, (newest_ms - fleet.start_ms) / 1000)
        found = incidents(client, limit=50)
        confirmed = [i for i in found if i.state != "suspect" and i.detected_ms >= fleet.start_ms]
        if confirmed and settled_at is None and (not truth.fault or _after(confirmed, truth)):
            settled_at = now_s + SETTLE_S
        still = left(now_s, until_s, clock.monotonic() - began)
        phase = (now_s > 0, now_s >= fleet.onset_s, len(confirmed))
        progress(_line(now_s, until_s, samples, fleet, len(confirmed)) + still, phase)
        explained = any(matches(i, truth) and i.cause == truth.fault for i in confirmed)
        if now_s >= until_s or (settled_at is not None and (now_s >= settled_at or explained) and truth.fault):
            break
        clock.sleep(0.5)
    return judge(tuple(confirmed), truth, samples, now_s, clock.monotonic() - began)


def judge(found: tuple[Incident, ...], truth: Truth, samples: int, event_s: float, wall_s: float) -> Verdict:
    """Correct is: the fault's own subject is the culprit of an incident, and no other subject of any."""
    right = [incident for incident in found if matches(incident, truth)]
    correct = bool(right) and len(right) == len(found) if truth.fault else not found
    delay = None
    if right and truth.onset_ms is not None:
        delay = round(min(incident.detected_ms for incident in right) / 1000 - truth.onset_ms / 1000, 1)
    return Verdict(
        truth=truth,
        incidents=tuple(sorted(found, key=lambda incident: incident.detected_ms)),
        correct=correct,
        delay_s=delay,
        samples=samples,
        event_s=event_s,
        wall_s=wall_s,
    )


def matches(incident: Incident, truth: Truth) -> bool:
    """Whether a culprit of `incident` is what the fault was put into, as precisely as both say."""
    if not truth.fault:
        return False
    for subject in incident.culprits:
        if truth.gpu is not None and truth.gpu in (subject.gpu, *subject.link.split("/")[:1]):
            return True
        if truth.rank is not None and subject.rank == truth.rank:
            return True
        if truth.gpu is None and truth.node is not None and subject.node == truth.node:
            return True
        if truth.node is None and truth.rack is not None and subject.rack == truth.rack:
            return True
        if truth.link is not None and subject.link and subject.node == truth.node:
            return True
    return truth.node is None and truth.rack is None and incident.scope in ("job", "cluster")


def _after(found: list[Incident], truth: Truth) -> bool:
    return any(truth.onset_ms is not None and i.detected_ms >= truth.onset_ms for i in found)


def _line(now_s: float, until_s: float, samples: int, fleet: FleetSettings, found: int) -> str:
    if fleet.fault and now_s < fleet.onset_s:
        phase = f"warm-up, {fleet.fault} comes at {fleet.onset_s:.0f} s"
    elif fleet.fault:
        phase = f"{fleet.fault} since {now_s - fleet.onset_s:.0f} s"
    else:
        phase = "healthy"
    incidents_said = f", {found} incident{'s' if found != 1 else ''}" if found else ""
    return (
        f"{now_s:4.0f} of at most {until_s:.0f} simulated s  {samples:>9,} GPU samples stored  {phase}{incidents_said}"
    )
