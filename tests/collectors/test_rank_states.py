"""Ranks' processes: running, blocked for long, gone."""

from pathlib import Path

import pytest
from fake_clock import FakeClock

from collectors.base import NoData
from collectors.host.rank_states import BLOCKED_S, LOOK_S, RankStatesCollector, parse_process_state
from collectors.job.processes import Work
from schemas.event import Event


@pytest.mark.parametrize("stat", ["", "7 (python", "7 (python) ", "7 (python) running 1"])
def test_what_is_no_state(stat: str) -> None:
    with pytest.raises(ValueError, match="no state"):
        parse_process_state(stat)


class Rig:
    def __init__(self, proc: Path, ranks: int) -> None:
        self.proc, self.clock = proc, FakeClock()
        self.ranks = {100 + rank: Work("job-1", rank) for rank in range(ranks)}
        for pid in self.ranks:
            self.state(pid, "R")
        self.collector = RankStatesCollector(proc, "n1", lambda: self.ranks, self.clock)

    def state(self, pid: int, letter: str) -> None:
        (self.proc / str(pid)).mkdir(exist_ok=True)
        (self.proc / str(pid) / "stat").write_text(f"{pid} (pt (main) x) {letter} 1 1 1\n")

    def tick(self, seconds: float = 1.0) -> tuple[tuple[float, ...], list[Event]]:
        self.clock.advance(seconds)
        reading = self.collector.collect(self.clock.now_ms())
        events = [draft for draft in reading.drafts if isinstance(draft, Event)]
        return tuple(reading.sections["host"].values()[0].tolist()), events


def test_states_are_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 4)
    rig.state(101, "D")
    rig.state(102, "T")
    assert rig.tick() == ((4.0, 1.0, 1.0), [])


def test_a_rank_blocked_for_long_is_told_once_and_when_it_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 2)
    rig.tick()
    rig.state(101, "D")
    events = [event for _ in range(int(BLOCKED_S) + 20) for event in rig.tick()[1]]
    assert [(e.kind, e.severity, e.job, e.rank) for e in events] == [("rank_blocked", "warning", "job-1", 1)]
    rig.state(101, "R")
    assert [event.kind for event in rig.tick()[1]] == ["rank_unblocked"]


def test_a_rank_that_waits_now_and_then_is_not_told(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 1)
    for second in range(90):
        rig.state(100, "D" if second % 10 < 8 else "R")
        assert rig.tick()[1] == []


def test_a_rank_that_is_gone_is_not_counted_and_a_node_without_ranks_has_no_data(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 2)
    rig.tick()
    (tmp_path / "101" / "stat").unlink()
    assert rig.tick()[0][0] == 1.0
    rig.ranks = {}
    with pytest.raises(NoData):
        rig.tick(LOOK_S)
