"""Ten random deaths under load; `python -m bench.chaos storage` does two hundred."""

from pathlib import Path

import pytest

from bench.chaos.storage import CHECKED, records, run, truth
from schemas import NodeFrame

pytestmark = pytest.mark.slow


def test_ten_random_deaths_of_writer_and_engine_leave_the_truth(tmp_path: Path) -> None:
    report = run(tmp_path, kills=10, seed=7, kill_engine=0.2)
    assert report.wrong == {}
    assert report.writer_kills == 10
    assert report.engine_kills >= 1
    assert report.set_back >= 1


def test_the_load_has_what_makes_it_hard() -> None:
    made = records(7, 60)
    once = {(type(record), record.identity) for record in made}
    assert len(made) > len(once)
    ticks = [record.ts_ms for record in made if isinstance(record, NodeFrame)]
    assert ticks != sorted(ticks)
    assert max(ticks) - min(ticks) > 86_400_000
    assert all(truth(made)[name] for name in CHECKED)
