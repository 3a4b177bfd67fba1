"""A record in a terminal: one line, or all of it."""

import json

import pytest

from lockstep.show import LEADING, shown
from schemas import Record
from schemas.examples import EXAMPLES
from schemas.metrics import METRICS
from schemas.readable import readable


@pytest.mark.parametrize("record", EXAMPLES, ids=[type(record).__name__ for record in EXAMPLES])
def test_every_record_has_one_line_with_when_and_whose(record: Record) -> None:
    line = shown(record, "text", verbose=False)
    assert "\n" not in line
    assert line.startswith("2023-11-14 22:13:2")
    assert record.key in line
    assert len(line) < 400
    assert json.loads(shown(record, "json", verbose=False)) == readable(record)


def test_a_frame_says_how_many_and_their_leading_values_and_verbose_each_of_them() -> None:
    frame = EXAMPLES[0]
    line = shown(frame, "text", verbose=False)
    assert "run 3 seq 41  gpu 1 (power_w 512" in line
    assert "gpu GPU-00000000-0000-0000-0000-000000000007: power_w 512" in shown(frame, "text")


def test_the_leading_values_are_metrics() -> None:
    known = {(metric.section, metric.name) for metric in METRICS}
    assert {(section, name) for section, names in LEADING.items() for name in names} <= known
