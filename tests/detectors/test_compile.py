"""The compiled loops work wherever the package lies, and cost nothing until they are used."""

import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from detectors.compile import compiled

ROOT = Path(__file__).parents[2]


def test_importing_compiles_nothing() -> None:
    code = "import sys, detectors.node, detectors.rack; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_where_no_folder_can_hold_the_cache_it_compiles_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba refuses `cache=True` with a RuntimeError in a read-only install with a read-only home."""
    plain, asked = numba.njit, []

    def refuses(*args: object, cache: bool = False, **options: object) -> object:
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
