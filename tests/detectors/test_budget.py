"""Budgets: from findings to limits and back, and what healthy data proves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.forest.calibration import Shares, calibrate
from detectors.node.budget import alarm_p, events_at_most, findings_within


@given(st.floats(1e-3, 1e5), st.integers(1, 20), st.floats(0.1, 60))
def test_a_budget_and_its_limit_are_each_others_reverse(findings: float, ticks: int, interval_s: float) -> None:
    p = alarm_p(findings, ticks, interval_s)
    assert p == 1 or findings_within(p, ticks, interval_s) == pytest.approx(findings)


def test_no_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 0"):
        alarm_p(0, 8)


def test_the_bound_holds_for_ticks_that_resemble_each_other() -> None:
    """Excursions of 20 ticks each: far fewer findings than ticks beyond the limit."""
    random = np.random.default_rng(1)
    starts = random.random(400_000) < 1e-4
    beyond = np.convolve(starts, np.ones(20))[: len(starts)] > 0
    findings = int(np.count_nonzero(beyond[1:] & ~beyond[:-1]))
    days = len(beyond) / 86_400
    assert findings / days * 10_000 <= findings_within(float(beyond.mean()), 8)


@pytest.mark.parametrize(("seen", "most"), [(0, 2.996), (1, 4.744), (5, 10.513), (20, 29.062)])
def test_poisson_bounds_are_those_of_the_tables(seen: int, most: float) -> None:
    assert events_at_most(seen) == pytest.approx(most, abs=2e-3)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02, 1e-3, 1e-6])
def test_the_score_of_a_share_has_that_share(share: float) -> None:
    fit = Shares(calibrate(np.random.default_rng(2).exponential(size=50_000)))
    assert np.exp(fit.log(np.array([fit.at(share)])))[0] == pytest.approx(share, rel=1e-6)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="between"):
        Shares(calibrate(np.random.default_rng(2).exponential(size=50_000))).at(share)
