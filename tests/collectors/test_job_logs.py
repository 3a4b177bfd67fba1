"""Lines of jobs' logs as they are written."""

import pytest

from collectors.base import NoData, Reading
from collectors.job.processes import Work
from collectors.nccl.job_logs import MOST_EVENTS, JobLogsCollector
from schemas.event import Event

TIMEOUT = (
    b"[rank%d]:[E321 02:07:08.414640780 ProcessGroupNCCL.cpp:607] [Rank 4] Watchdog caught collective operation "
    b"timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600067 ms"
)


class Memory:
    def __init__(self, *lines: bytes) -> None:
        self.lines = [("train.log", line) for line in lines]

    def read(self) -> list[tuple[str, bytes]]:
        return self.lines


def read(*lines: bytes, works: tuple[Work, ...] = (Work("j", 4), Work("k", 5))) -> Reading:
    return JobLogsCollector(Memory(*lines), lambda: dict(enumerate(works))).collect(0)


def events(reading: Reading) -> list[Event]:
    return [draft for draft in reading.drafts if isinstance(draft, Event)]


def test_a_time_out_is_an_event_of_its_rank_and_job() -> None:
    (event,) = events(read(b"step 3 loss 2.1", TIMEOUT % 4))
    assert (event.kind, event.job, event.rank, event.severity) == ("nccl_watchdog", "j", 4, "warning")
    assert event.detail["seq"] == "1580"


def test_the_job_of_a_rank_that_two_jobs_have_is_not_guessed() -> None:
    (event,) = events(read(TIMEOUT % 4, works=(Work("j", 4), Work("k", 4))))
    assert event.job == ""
    (event,) = events(read(TIMEOUT % 9, works=(Work("j", 4),)))
    assert event.job == "j"


def test_a_flood_is_bounded_and_counted() -> None:
    reading = read(*[TIMEOUT % 4] * (MOST_EVENTS + 10))
    assert len(reading.drafts) == MOST_EVENTS
    assert reading.missing == {"job_log_flood": 10}


def test_a_healthy_log_says_nothing() -> None:
    with pytest.raises(NoData):
        read(b"step 3 loss 2.1", b"\xff\xfe NCCL INFO x", b"node:1:1 [0] NCCL INFO Init COMPLETE")
