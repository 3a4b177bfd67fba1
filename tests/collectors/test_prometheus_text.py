"""Prometheus' text format, as exporters write it and as they break it."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.prometheus_text import Sample, parse


def test_labels_may_hold_anything() -> None:
    scrape = parse('a{x="1",y="b, \\"c\\" \\\\ {d}", z=""} 7\nb 8.5 1700000000000\nc{} NaN\n')
    assert scrape.samples == [
        Sample("a", {"x": "1", "y": 'b, "c" \\ {d}', "z": ""}, "7"),
        Sample("b", {}, "8.5"),
        Sample("c", {}, "NaN"),
    ]
    assert scrape.unread == 0


def test_help_is_kept_and_comments_and_empty_lines_are_nothing() -> None:
    scrape = parse("# HELP a Throttling duration (in us).\n# TYPE a counter\n# just so\n\na 1\n")
    assert scrape.help == {"a": "Throttling duration (in us)."}
    assert len(scrape.samples) == 1


def test_a_line_that_cannot_be_read_costs_only_itself() -> None:
    scrape = parse('...\na{x="1} 2\nb{x=1} 2\nc{x="1"}\nd{x="1"} 3\n{y="1"} 4\ne{x="1"} 5 6 7\n<html>\n')
    assert [sample.name for sample in scrape.samples] == ["d"]
    assert scrape.unread == 7


def test_a_value_stays_as_it_was_printed() -> None:
    (sample,) = parse("a 9223372036854775794").samples
    assert sample.value == "9223372036854775794"


@given(st.text(max_size=300))
def test_any_text_is_read_or_counted(text: str) -> None:
    scrape = parse(text)
    assert len(scrape.samples) + scrape.unread <= len(text.splitlines())
