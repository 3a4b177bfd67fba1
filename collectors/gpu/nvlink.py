"""The NVLinks of one GPU, link by link: rates, errors, recoveries, bit error rates, corrected symbols.

Hopper and older count replays, recoveries and CRC errors; NVLink 5 has other fields instead (nvml.h). A field that no
link of the GPU has is asked again after ten minutes; what a generation lacks is left out of its rows.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from collectors.gpu import nvml
from collectors.gpu.fields import KIB_FIELDS, Absent, Ask, raise_if_gone, reason_of
from collectors.rates import Value
from schemas.metrics import FEC_BINS

MEGA = 1e6

Count = int | str
"""What one link answered: a whole number, or the reason why there is none."""

FLOOR_LOG10 = -255.0
"""A bit error rate of "nothing seen": the smallest that the packed form can tell is 1e-255."""


def ber_log10(packed: int) -> float:
    """The power of ten of a packed bit error rate: exponent in bits 0-7, mantissa in bits 8-11, m x 10^-e (nvml.h).

    A link without an error says 15 x 10^-255.

    >>> ber_log10(15 << 8 | 255), ber_log10(1 << 8 | 12)
    (-253.82390874094432, -12.0)
    """
    exponent, mantissa = packed & 0xFF, packed >> 8 & 0xF
    return max(FLOOR_LOG10, math.log10(mantissa) - exponent) if mantissa else FLOOR_LOG10


class LinkMetric(NamedTuple):
    """A column of section `nvlink`: the first of `fields` that the GPU has, times `scale`, or its growth per second, or
    through `decode`. `over`: the field whose growth this one's growth is divided by."""

    name: str
    fields: tuple[int, ...]
    scale: float = 1.0
    rate: bool = False
    decode: Callable[[int], float] | None = None
    over: int = 0


TEN_SECOND_LINKS: tuple[LinkMetric, ...] = (
    LinkMetric("state", (165,)),
    LinkMetric("speed_bytes_per_s", (164,), MEGA),
    LinkMetric("tx_bytes_per_s", (202, 138), rate=True),
    LinkMetric("rx_bytes_per_s", (204, 139), rate=True),
    LinkMetric("replay_count", (161,)),
    LinkMetric("recovery_count", (215, 162)),
    LinkMetric("crc_error_count", (163,)),
    LinkMetric("malformed_count", (206,)),
    LinkMetric("overrun_count", (207,)),
    LinkMetric("receive_error_count", (208,)),
    LinkMetric("remote_error_count", (209,)),
    LinkMetric("general_error_count", (210,)),
    LinkMetric("integrity_error_count", (211,)),
    LinkMetric("discard_count", (212,)),
    LinkMetric("recovered_count", (213,)),
    LinkMetric("recovery_failed_count", (214,)),
    LinkMetric("retransmit_ratio", (295,), rate=True, over=294),
)

MINUTE_LINKS: tuple[LinkMetric, ...] = (
    LinkMetric("effective_error_count", (219,)),
    LinkMetric("symbol_error_count", (221,)),
    LinkMetric("effective_ber_log10", (220,), decode=ber_log10),
    LinkMetric("symbol_ber_log10", (222,), decode=ber_log10),
    *(LinkMetric(f"fec_{n}_per_s", (235 + n,), rate=True) for n in range(FEC_BINS)),
)


class LinkReader:
    """Plans and understands the fields of all links of one GPU and one period."""

    def __init__(self, metrics: tuple[LinkMetric, ...], links: int) -> None:
        self._metrics, self._links = metrics, links
        self._absent = Absent()
        wanted = [field for metric in metrics for field in (*metric.fields, metric.over) if field]
        self._wanted = tuple(dict.fromkeys(wanted))
        self._counted = {field for metric in metrics if metric.rate for field in (*metric.fields, metric.over)}
        self._last: dict[int, tuple[Sequence[Count], float]] = {}
        self._fields: tuple[int, ...] = ()
        self._asks: list[Ask] = []
        self._replan_at = float("-inf")

    def asks(self, now: float) -> list[Ask]:
        """What to ask; the same list until that changes."""
        if now >= self._replan_at:
            self._make_plan(now)
        return self._asks

    def take(self, codes: Sequence[int], numbers: Sequence[int | float | None], now: float) -> dict[str, list[Value]]:
        """The columns that this GPU has, each with a value for every link, from the answers to the last `asks`.

        Raises DeviceGone where one of them speaks of the whole GPU.
        """
        told: dict[int, Sequence[Count]] = {}
        rates: dict[int, list[Value]] = {}
        for at, field in enumerate(self._fields):
            span = slice(at * self._links, (at + 1) * self._links)
            counts = _counts(codes[span], numbers[span])
            if all(count == "unsupported" for count in counts):
                self._absent.add(field, now)
                continue
            told[field] = counts
            if field in self._counted:
                before, at_s = self._last.get(field, ((), now))
                rates[field] = _rates(counts, before, now - at_s)
                self._last[field] = counts, now
        columns: dict[str, list[Value]] = {}
        for metric in self._metrics:
            field = next((field for field in metric.fields if field in told), 0)
            if field and (not metric.over or metric.over in told):
                columns[metric.name] = _column(metric, field, told, rates)
        if len(told) < len(self._fields):
            self._make_plan(now)
        return columns

    def _make_plan(self, now: float) -> None:
        self._fields = tuple(field for field in self._wanted if not self._absent(field, now))
        self._asks = [(field, link) for field in self._fields for link in range(self._links)]
        self._replan_at = self._absent.next_change(now)


def _counts(codes: Sequence[int], numbers: Sequence[int | float | None]) -> Sequence[Count]:
    """One field of all links, as whole numbers; a reason where a link has none."""
    if not any(codes) and None not in numbers:
        return cast(Sequence[int], numbers)
    return [_answer(code, number) for code, number in zip(codes, numbers, strict=True)]


def _answer(code: int, number: int | float | None) -> Count:
    if code != nvml.SUCCESS:
        raise_if_gone(code)
        return reason_of(code)
    return "blank" if number is None else int(number)


def _rates(now: Sequence[Count], before: Sequence[Count], seconds: float) -> list[Value]:
    """Growth per second, link by link; one link's reset is that link's."""
    if not before or seconds <= 0:
        return ["first_reading"] * len(now)
    try:
        growth = [count - then for count, then in zip(now, before, strict=True)]  # type: ignore[operator]
    except TypeError:  # a reason among them
        return [_rate(count, then, seconds) for count, then in zip(now, before, strict=True)]
    return [grown / seconds if grown >= 0 else "counter_fell" for grown in growth]


def _rate(count: Count, then: Count, seconds: float) -> Value:
    if isinstance(count, str):
        return count
    if isinstance(then, str):
        return "first_reading"
    return (count - then) / seconds if count >= then else "counter_fell"


def _column(
    metric: LinkMetric, field: int, told: dict[int, Sequence[Count]], rates: dict[int, list[Value]]
) -> list[Value]:
    if metric.over:
        return [_ratio(part, whole) for part, whole in zip(rates[field], rates[metric.over], strict=True)]
    if metric.rate:
        scale = 1024.0 if field in KIB_FIELDS else metric.scale
        if scale == 1.0:
            return rates[field]
        return [rate if isinstance(rate, str) else rate * scale for rate in rates[field]]
    if metric.decode is not None:
        return [count if isinstance(count, str) else metric.decode(count) for count in told[field]]
    if metric.scale == 1.0:
        return list(told[field])
    return [count if isinstance(count, str) else count * metric.scale for count in told[field]]


def _ratio(part: Value, whole: Value) -> Value:
    if isinstance(part, str) or isinstance(whole, str):
        return part if isinstance(part, str) else whole
    return part / whole if whole else "no_traffic"
