"""Every parser of text or bytes from outside, on samples that were changed at random: it takes them or refuses.

Minutes of the same, guided by coverage and within a limit of memory: `python -m bench.fuzz`.
"""

from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fuzz.mutate import FLOOD, mutate
from bench.fuzz.parser import PATIENCE_S, fed
from bench.fuzz.parsers import PARSERS
from lockstep.analyze import READERS


@cache
def taken(name: str) -> int:
    """How many samples the parser takes. What is compiled when it first runs is in no input's time."""
    parser = PARSERS[name]._replace(limit_s=PATIENCE_S)
    return sum(fed(parser, seed) for seed in parser.seeds)


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_takes_its_samples(name: str) -> None:
    assert taken(name)


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.randoms(use_true_random=False))
def test_a_parser_raises_nothing_but_its_own(name: str, random: Random) -> None:
    parser = PARSERS[name]
    assert taken(name)
    fed(parser, mutate(random.choice(parser.seeds), parser.seeds, random))


def test_every_kind_of_analyze_is_fuzzed() -> None:
    assert {f"analyze/{kind}" for kind in READERS} <= PARSERS.keys()


def test_changes_stay_within_their_bound() -> None:
    random = Random(1)
    assert all(len(mutate(b"a 1\n", (b"b 2\n",), random)) <= FLOOD for _ in range(500))
