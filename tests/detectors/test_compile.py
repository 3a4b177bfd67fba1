"""The compiled loops work wherever the package lies, and cost nothing until they are used."""

import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numba
import numpy as np
import pytest

from detectors.compile import Compiled, compiled, part

FACTOR = 2.0


@compiled
def one_more(value: float) -> float:
    return value + 1.0


@compiled
def three_more(value: float) -> float:
    return value + 3.0


@part
def half(value: float) -> float:
    return value / 2.0


def whole(value: float) -> float:
    return FACTOR * one_more(value)


def half_of_whole(value: float) -> float:
    return half(FACTOR * one_more(value))


ROOT = Path(__file__).parents[2]


def test_importing_compiles_nothing() -> None:
    code = "import sys, detectors.node.detector, detectors.rack.detector; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_where_no_folder_can_hold_the_cache_it_compiles_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba refuses `cache=True` with a RuntimeError in a read-only install with a read-only home."""
    plain, asked = numba.njit, []

    def refuses(*args: object, cache: bool = False, **options: object) -> object:
        if "nogil" not in options:  # numba's own
            return plain(*args, cache=cache, **options)
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'total': no locator available")
        return plain(*args, **options)

    monkeypatch.setattr(numba, "njit", refuses)

    @compiled
    def total(values: np.ndarray) -> float:
        result = 0.0
        for value in values:
            result += value
        return result

    assert total(np.array([1.0, 2.5])) == 3.5
    assert total(np.array([1.0])) == 1.0
    assert asked == [True, False]


def test_one_compiled_function_may_call_another() -> None:
    assert compiled(whole)(4.0) == 10.0


def test_a_part_is_compiled_into_what_calls_it_and_plain_for_python() -> None:
    assert compiled(half_of_whole)(4.0) == 5.0
    assert half(4.0) == 2.0


def test_machine_code_on_disk_is_never_that_of_an_older_part_or_constant() -> None:
    """numba looks for changes in the file of the outermost function only."""
    marks = {
        Compiled(FunctionType(whole.__code__, used)).mark
        for used in (
            {"one_more": one_more, "FACTOR": 2.0},
            {"one_more": one_more, "FACTOR": 3.0},
            {"one_more": one_more, "FACTOR": np.array([2.0])},
            {"one_more": three_more, "FACTOR": 2.0},
        )
    }
    assert len(marks) == 4
    assert Compiled(FunctionType(whole.__code__, {"one_more": one_more, "FACTOR": 2.0})).mark in marks
