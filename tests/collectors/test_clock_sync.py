"""The clock by the kernel's word."""

import pytest

from collectors.base import CollectorError, NoData, Reading
from collectors.host.clock_sync import ClockSyncCollector, Timex, ask_kernel


def row(reading: Reading) -> dict[str, float]:
    matrix = reading.sections["host"]
    return dict(zip(matrix.columns, matrix.values()[0].tolist(), strict=True))


@pytest.mark.parametrize(
    ("timex", "offset_s", "synchronised"),
    [
        (Timex(0, 0x2001, 1_500_000, 20_000), 0.0015, 1.0),
        (Timex(0, 0x0001, -1500, 20_000), -0.0015, 1.0),
        (Timex(5, 0x0040, 0, 16_000_000), 0.0, 0.0),
    ],
)
def test_offsets_in_both_units(timex: Timex, offset_s: float, synchronised: float) -> None:
    found = row(ClockSyncCollector("n1", lambda: timex).collect(0))
    assert found["clock_offset_s"] == pytest.approx(offset_s)
    assert found["clock_error_s"] == pytest.approx(timex.error_us * 1e-6)
    assert found["clock_synchronised"] == synchronised


def test_a_clock_that_loses_its_reference_is_told_with_its_readings() -> None:
    answers = [Timex(0, 1, 0, 1000), Timex(5, 0x40, 0, 9000), Timex(0, 1, 0, 1000)]
    collector = ClockSyncCollector("n1", lambda: answers.pop(0))
    collector.collect(0)
    with pytest.raises(CollectorError) as raised:
        collector.collect(10_000)
    assert raised.value.kind == "clock_unsynchronised"
    assert raised.value.partial is not None
    assert row(raised.value.partial)["clock_synchronised"] == 0.0
    assert row(collector.collect(20_000))["clock_synchronised"] == 1.0


def test_a_clock_that_never_was_synchronised_is_a_reading_and_no_error() -> None:
    collector = ClockSyncCollector("n1", lambda: Timex(5, 0x40, 0, 16_000_000))
    assert row(collector.collect(0))["clock_synchronised"] == 0.0


def test_a_kernel_that_does_not_answer_is_no_data() -> None:
    def refused() -> Timex:
        raise PermissionError(1, "adjtimex")

    with pytest.raises(NoData):
        ClockSyncCollector("n1", refused).collect(0)


def test_this_machines_own_kernel() -> None:
    try:
        timex = ask_kernel()
    except OSError as error:
        pytest.skip(f"adjtimex is not allowed here: {error}")
    assert 0 <= timex.state <= 5
    assert timex.error_us >= 0
