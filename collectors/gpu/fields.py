"""The fields of one GPU: which to ask, in one call a tick, and what their answers mean.

One table for each period: what changes is asked every second, what hardly does every ten seconds or every minute. A
metric may have alternatives (NVLink counters changed with Blackwell): the first that the GPU supports is used. What a
GPU lacks is remembered for ten minutes per (field, scope): asking costs, and a driver may learn it by an update.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

from collectors.gpu import nvml
from collectors.rates import Rates, Value

ASK_AGAIN_S = 600.0


class Sum(NamedTuple):
    """The sum of `fields`: over all links if `per_link`, else with the one `scope`."""

    fields: tuple[int, ...]
    per_link: bool = False
    scope: int = 0


class FieldMetric(NamedTuple):
    """A metric of schemas.metrics read from fields: value times `scale`, or its growth per second times `scale`."""

    name: str
    alternatives: tuple[Sum, ...]
    scale: float = 1.0
    rate: bool = False


def _one(field: int) -> tuple[Sum, ...]:
    return (Sum((field,)),)


NANOSECONDS, MILLI = 1e-9, 1e-3

FIELD_METRICS: tuple[FieldMetric, ...] = (
    FieldMetric("power_w", _one(186), MILLI),
    FieldMetric("power_average_w", _one(83), MILLI, rate=True),
    FieldMetric("power_limit_w", _one(190), MILLI),
    FieldMetric("memory_temperature_c", _one(82)),
    FieldMetric("power_cap_share", _one(74), NANOSECONDS, rate=True),
    FieldMetric("software_thermal_share", _one(269), NANOSECONDS, rate=True),
    FieldMetric("hardware_thermal_share", _one(270), NANOSECONDS, rate=True),
    FieldMetric("power_brake_share", _one(271), NANOSECONDS, rate=True),
    FieldMetric("ecc_sbe_count", _one(3)),
    FieldMetric("ecc_dbe_count", _one(4)),
    FieldMetric("remapped_correctable_count", _one(142)),
    FieldMetric("remapped_uncorrectable_count", _one(143)),
    FieldMetric("remap_pending", _one(144)),
    FieldMetric("remap_failed", _one(145)),
    FieldMetric("pcie_tx_bytes_per_s", _one(197), rate=True),
    FieldMetric("pcie_rx_bytes_per_s", _one(198), rate=True),
    FieldMetric("pcie_replay_count", _one(94)),
    FieldMetric("recovery_action", _one(230)),
    # Hopper and older count KiB and can add up all links themselves; NVLink 5 counts bytes, link by link.
    FieldMetric("nvlink_tx_bytes_per_s", (Sum((138,), scope=nvml.ALL_LINKS), Sum((202,), per_link=True)), rate=True),
    FieldMetric("nvlink_rx_bytes_per_s", (Sum((139,), scope=nvml.ALL_LINKS), Sum((204,), per_link=True)), rate=True),
    FieldMetric(
        "nvlink_error_count", (Sum((161, 162, 163), per_link=True), Sum(tuple(range(206, 215)), per_link=True))
    ),
)

TEN_SECOND_FIELDS: tuple[FieldMetric, ...] = (
    FieldMetric("sync_boost_share", _one(76), NANOSECONDS, rate=True),
    FieldMetric("pcie_correctable_count", _one(173)),
    FieldMetric("pcie_uncorrectable_count", (Sum((179, 180)),)),
    FieldMetric("pcie_recovery_count", _one(169)),
)

MINUTE_FIELDS: tuple[FieldMetric, ...] = (
    FieldMetric("power_limit_default_w", _one(189), MILLI),
    FieldMetric("slowdown_margin_c", _one(194)),
    FieldMetric("ecc_sbe_lifetime_count", _one(5)),
    FieldMetric("ecc_dbe_lifetime_count", _one(6)),
    FieldMetric("retired_page_count", (Sum((29, 30)),)),
    FieldMetric("retirement_pending", _one(31)),
    FieldMetric("remap_banks_exhausted_count", _one(306)),
)

LINK_COUNT = 91
KIB_FIELDS = frozenset((138, 139))

_REASONS = {
    nvml.NO_PERMISSION: "no_permission",
    nvml.TIMEOUT: "timeout",
    nvml.NO_DATA: "no_data",
    nvml.NOT_READY: "no_data",
    nvml.UNKNOWN: "unknown_error",
}
_UNSUPPORTED = frozenset(
    (
        nvml.INVALID_ARGUMENT,
        nvml.NOT_SUPPORTED,
        nvml.NOT_FOUND,
        nvml.FUNCTION_NOT_FOUND,
        nvml.ARGUMENT_VERSION_MISMATCH,
        nvml.DEPRECATED,
    )
)


def reason_of(code: int) -> str:
    """The reason under which a value that answered `code` is counted missing."""
    return "unsupported" if code in _UNSUPPORTED else _REASONS.get(code, f"nvml_{code}")


class DeviceGone(Exception):
    """The GPU itself answered that it is lost or must be reset: nothing it says is current."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def raise_if_gone(code: int) -> None:
    """DeviceGone where `code` speaks of the GPU as a whole."""
    if code in nvml.DEVICE_GONE:
        raise DeviceGone(code)


class Absent:
    """What a GPU said it lacks, each with the time to ask again."""

    def __init__(self) -> None:
        self._until: dict[object, float] = {}

    def add(self, key: object, now: float) -> None:
        self._until[key] = now + ASK_AGAIN_S

    def __call__(self, key: object, now: float) -> bool:
        return self._until.get(key, now) > now

    def next_change(self, now: float) -> float:
        """When the next of them is to be asked again."""
        return min((until for until in self._until.values() if until > now), default=float("inf"))


Ask = tuple[int, int]
"""(field, scope)."""


class _Choice(NamedTuple):
    """One alternative as it is asked now: `asks` are the places from `start` on in the call."""

    start: int
    asks: tuple[Ask, ...]
    scale: float


class FieldReader:
    """Plans and understands the fields of one GPU and one period; each value's own return code is checked.

    The call itself is the caller's, who puts the fields of several readers into one.
    """

    def __init__(self, metrics: tuple[FieldMetric, ...], links: int, rates: Rates) -> None:
        self._metrics, self._links, self._rates = metrics, links, rates
        self._absent, self._supported = Absent(), set[Ask]()
        self._plan: list[tuple[FieldMetric, list[_Choice]]] = []
        self._single: list[tuple[str, int, float]] = []
        self._others: list[tuple[FieldMetric, list[_Choice]]] = []
        self._asks: list[Ask] = []
        self._replan_at = float("-inf")

    def asks(self, now: float) -> list[Ask]:
        """What to ask; the same list until that changes."""
        if now >= self._replan_at:
            self._make_plan(now)
        return self._asks

    def take(self, codes: Sequence[int], numbers: Sequence[int | float | None], now: float) -> dict[str, Value]:
        """Every metric as a number or the reason of its absence, from the answers to the last `asks`.

        Raises DeviceGone where one of them speaks of the whole GPU.
        """
        reasons: list[str] | None = None
        learned = False
        if any(codes) or None in numbers:
            reasons = ["blank" if number is None else "" for number in numbers]
            for i, code in enumerate(codes):
                if code != nvml.SUCCESS:
                    raise_if_gone(code)
                    reasons[i] = reason_of(code)
                    if reasons[i] == "unsupported":
                        self._absent.add(self._asks[i], now)
                        self._supported.discard(self._asks[i])
                        learned = True
        if len(self._supported) < len(self._asks):
            answered = {ask for ask, code in zip(self._asks, codes, strict=True) if code == nvml.SUCCESS}
            learned = learned or not answered <= self._supported
            self._supported |= answered
        if reasons is None:
            known = cast(Sequence[int], numbers)
            values: dict[str, Value] = {name: known[at] * scale for name, at, scale in self._single}
            for metric, choices in self._others:
                values[metric.name] = self._clean(metric, choices, known, now)
        else:
            values = {
                metric.name: self._value(metric, choices, numbers, reasons, now) for metric, choices in self._plan
            }
        if learned:
            self._make_plan(now)
        return values

    def _make_plan(self, now: float) -> None:
        plan: list[tuple[FieldMetric, list[_Choice]]] = []
        asked: list[Ask] = []
        for metric in self._metrics:
            choices: list[_Choice] = []
            for choice in metric.alternatives:
                asks = tuple(ask for ask in self._asks_of(choice) if not self._absent(ask, now))
                scale = metric.scale * (1024 if KIB_FIELDS.issuperset(choice.fields) else 1)
                if asks:
                    choices.append(_Choice(len(asked), asks, scale))
                    asked += asks
                if not self._supported.isdisjoint(asks):
                    break
            plan.append((metric, choices))
        self._plan, self._replan_at = plan, self._absent.next_change(now)
        # Most are one number that is taken as it is: they need no call each.
        alone = [bool(choices) and len(choices[0].asks) == 1 and not metric.rate for metric, choices in plan]
        self._single = [(m.name, c[0].start, c[0].scale) for (m, c), one in zip(plan, alone, strict=True) if one]
        self._others = [planned for planned, one in zip(plan, alone, strict=True) if not one]
        if asked != self._asks:
            self._asks = asked

    def _asks_of(self, choice: Sum) -> list[Ask]:
        scopes = range(self._links) if choice.per_link else (choice.scope,)
        return [(field, scope) for field in choice.fields for scope in scopes]

    def _clean(self, metric: FieldMetric, choices: list[_Choice], numbers: Sequence[int], now: float) -> Value:
        """A metric where every answer is a number, as nearly always."""
        if not choices:
            return "unsupported"
        start, who, scale = choices[0]
        known = numbers[start : start + len(who)]
        if not metric.rate:
            return sum(known) * scale
        rate = self._rates.rate(metric.name, known, now, who)
        return rate if isinstance(rate, str) else rate * scale

    def _value(
        self,
        metric: FieldMetric,
        choices: list[_Choice],
        numbers: Sequence[int | float | None],
        reasons: list[str],
        now: float,
    ) -> Value:
        for start, who, scale in choices:
            told = reasons[start : start + len(who)]
            present = [i for i, reason in enumerate(told) if reason != "unsupported"]
            if not present:
                continue
            if any(told[i] for i in present):
                return next(told[i] for i in present if told[i])
            known, who = [cast(int, numbers[start + i]) for i in present], tuple(who[i] for i in present)
            if not metric.rate:
                return sum(known) * scale
            # Link by link: one link's reset must not hide in the growth of the others.
            rate = self._rates.rate(metric.name, known, now, who)
            return rate if isinstance(rate, str) else rate * scale
        return "unsupported"
