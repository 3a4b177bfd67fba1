"""Row remaps and XIDs that come back to one GPU, in words."""

from collections import Counter

import msgspec

from detectors.drift.ladder import DAY_MS, HOUR_MS
from detectors.drift.limits import HEALTHY_DAYS, REMAP_ROWS
from detectors.drift.recurrence import Marks, pace, too_often
from detectors.drift.watch import PLAN, spoken
from detectors.episode import Rule, Verdict
from detectors.event_rules import ACTION, XID_CAUSES
from detectors.incident.relation import RISK
from schemas.event import Event
from schemas.finding import Evidence

REMAPS = Rule(f"{RISK}row_remaps", "degradation")
XIDS = Rule(f"{RISK}xids", "degradation")
WAITING = Rule(f"{RISK}remap_pending", "degradation")

WAITED_MS = DAY_MS
"""A row that is marked for remapping is spare only after a reset (gpud, DCGM: reset the GPU); a day is for whoever
resets nodes between jobs anyway."""


class Repeats(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What came back to one GPU: row remaps (the total after each), and XIDs (their codes); and since when a remap
    waits for a reset."""

    remaps: Marks = msgspec.field(default_factory=Marks)
    xids: Marks = msgspec.field(default_factory=Marks)
    waits_since_ms: int | None = None

    def remapped(self, ts_ms: int, before: float, now: float) -> None:
        """Rows remapped within an hour are one event."""
        self.remaps.add(ts_ms, now, HOUR_MS, before)

    def xid(self, event: Event) -> None:
        """XIDs that speak of hardware; those of one day are one event."""
        if event.kind == "xid" and event.code in XID_CAUSES:
            self.xids.add(event.ts_ms, float(event.code), DAY_MS)

    def waits(self, ts_ms: int, pending: bool) -> None:
        """Whether a remap waits for a reset now."""
        self.waits_since_ms = None if not pending else ts_ms if self.waits_since_ms is None else self.waits_since_ms

    def verdicts(self, now_ms: int, who: str) -> dict[Rule, Verdict | None]:
        """By rule what is to be said; None where a healthy GPU could have had as many."""
        remaps, xids, since_ms = self.remaps.within(now_ms), self.xids.within(now_ms), self.waits_since_ms
        return {
            WAITING: None if since_ms is None or now_ms - since_ms < WAITED_MS else _waiting(since_ms, now_ms, who),
            REMAPS: _remaps(self.remaps, now_ms, who, since_ms is not None)
            if too_often(remaps, HEALTHY_DAYS)
            else None,
            XIDS: _xids(self.xids, now_ms, who) if too_often(xids, HEALTHY_DAYS) else None,
        }


def _remaps(marks: Marks, now_ms: int, who: str, pending: bool) -> Verdict:
    """The pace is that since the first one, which began the count and is not counted."""
    count, rows = len(marks.at_ms), marks.value[-1] - marks.before
    days = max((now_ms - marks.at_ms[0]) / DAY_MS, 1 / 24)
    span = spoken(days * 24)
    each = rows / count
    left = max(REMAP_ROWS - marks.value[-1], 0.0)
    rate = pace(count - 1, days)
    likely, soonest, latest = (spoken(24 * left / (each * a_day)) for a_day in (rate.likely, rate.high, rate.low))
    moved = f"row remaps of {who} {marks.before:g} -> {marks.value[-1]:g} in {span}"
    waits = "; one more waits for a reset" if pending else ""
    told = f"{moved}, at {count} times; {REMAP_ROWS} is the limit: at this pace in {likely} (between {soonest} and "
    return Verdict(
        cause="gpu_memory_error",
        confidence=0.7,
        score=1.0,
        summary=f"{moved}; {REMAP_ROWS} is the limit, at this pace in {likely}",
        evidence=(
            Evidence(text=f"{told}{latest}){waits}", metric="remapped_uncorrectable_count", value=marks.value[-1],
                     baseline=marks.before),
            Evidence(text=f"a healthy GPU has one in {HEALTHY_DAYS:,.0f} days or less often, {count} within 30 days by "
                     "chance once in thousands of years"),
            PLAN,
        ),
    )  # fmt: skip


def _waiting(since_ms: int, now_ms: int, who: str) -> Verdict:
    told = f"a row remap of {who} waits for a reset, for {spoken((now_ms - since_ms) / HOUR_MS)}"
    return Verdict(
        cause="gpu_memory_error",
        confidence=0.6,
        score=1.0,
        summary=told,
        evidence=(
            Evidence(text=f"{told}; until then its page is only left out", metric="remap_pending", value=1.0),
            Evidence(text="Reset the GPU when its job ends", metric=ACTION),
        ),
    )


def _xids(marks: Marks, now_ms: int, who: str) -> Verdict:
    codes = [int(code) for code in marks.value]
    often, _ = Counter(codes).most_common(1)[0]
    span = spoken((now_ms - marks.at_ms[0]) / HOUR_MS)
    told = f"{who} had XIDs that speak of hardware on {len(codes)} days within {span}: {', '.join(map(str, codes))}"
    return Verdict(
        cause=XID_CAUSES.get(often, "unknown"),
        confidence=0.6,
        score=1.0,
        summary=told,
        evidence=(
            Evidence(text=f"{told}; a healthy GPU has one in {HEALTHY_DAYS:,.0f} days or less often", metric="xid",
                     value=float(len(codes))),
            PLAN,
        ),
    )  # fmt: skip
