"""Prometheus' text exposition: lines to samples. Values stay text, because a double would blur what marks a blank."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_HELP = re.compile(r"# HELP ([\w:]+)\s+(.*)")


class Sample(NamedTuple):
    """One sample: the metric's name, its labels, the value as printed."""

    name: str
    labels: Mapping[str, str]
    value: str


class Scrape(NamedTuple):
    """What was read: samples in order, the metrics' help texts, and how many lines were neither."""

    samples: list[Sample]
    help: dict[str, str]
    unread: int


def parse(text: str) -> Scrape:
    """Every line on its own: one that cannot be read is counted and costs only itself.

    >>> parse('power{gpu="0", name="a, \\\\"b\\\\""} 1.5\\n').samples
    [Sample(name='power', labels={'gpu': '0', 'name': 'a, "b"'}, value='1.5')]
    """
    samples: list[Sample] = []
    said: dict[str, str] = {}
    unread = 0
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            if (told := _HELP.match(line)) is not None:
                said[told[1]] = told[2]
            continue
        match = _SAMPLE.fullmatch(line.strip())
        labels = _labels(match[2] or "") if match is not None else None
        if match is None or labels is None:
            unread += 1
        else:
            samples.append(Sample(match[1], labels, match[3]))
    return Scrape(samples, said, unread)


@lru_cache(maxsize=1024)
def _labels(text: str) -> Mapping[str, str] | None:
    """The labels; None where they cannot be read. The same few come in every line of every scrape."""
    found = dict(_pairs(text))
    return None if "" in found else found


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            yield "", text[at:]
            return
        yield match[1], _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], match[2])
        at = match.end()
