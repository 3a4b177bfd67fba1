"""The compiled walk works wherever the package lies, and costs nothing until it is used."""

import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from detectors import scoring

ROOT = Path(__file__).parents[2]


def test_importing_compiles_nothing() -> None:
    code = "import sys, detectors.node; from detectors import scoring; print(scoring._compiled.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_where_no_folder_can_hold_the_cache_it_compiles_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba refuses `cache=True` with a RuntimeError in a read-only install with a read-only home."""
    plain = numba.njit

    def refuses(*args: object, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function '_walk': no locator available")
        return plain(*args, **options)

    monkeypatch.setattr(scoring.numba, "njit", refuses)
    scoring._compiled.cache_clear()
    try:
        leaf = np.full((1, scoring.LEAVES), 7.0, dtype=np.float32)
        feature = np.zeros((1, scoring.INNER), dtype=np.uint8)
        threshold = np.full((1, scoring.INNER), np.inf, dtype=np.float32)
        assert scoring.depths(np.zeros((2, 1), dtype=np.float32), feature, threshold, leaf).tolist() == [7.0, 7.0]
    finally:
        scoring._compiled.cache_clear()
