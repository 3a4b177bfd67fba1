"""NCCL's RAS asked live: when, by whom, how often, and whatever the service does."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_ras import FakeRas
from msgspec.structs import replace

from collectors.agent.background import Background
from collectors.agent.core import Identity
from collectors.agent.node import Node
from collectors.agent.settings import AgentSettings, Machine
from collectors.base import UNSTAMPED, CollectorError, NoData, Reading
from collectors.job.movement import Movement
from collectors.job.processes import Work
from collectors.nccl.ras_client import RasUnreachable, address, ask
from collectors.nccl.ras_poll import RasCollector, on_node
from detectors.event_rules import meaning
from detectors.event_watch import EventWatch
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.health import Counters
from schemas.collective import CollectiveFrame, Communicator, Progress
from schemas.event import Event

T0 = 1_796_035_800_000


def status(late: int | None = None, size: int = 4) -> bytes:
    ranks = [
        {
            "rank": r, "host": "192.0.2.11", "pid": 100 + r, "status": {"init_state": 0},
            "collective_counts": {"AllReduce": 6 if r == late else 7},
        }
        for r in range(size)
    ]  # fmt: skip
    return json.dumps({"communicators": [{"hash": "0xa", "size": size, "ranks": ranks, "missing_ranks": []}]}).encode()


class Bed:
    """A collector whose clock is turned by hand, with a job of rank 0 here."""

    def __init__(self, query: Callable[[tuple[str, int]], bytes], rank: int = 0) -> None:
        self.movement = Movement()
        self.movement.moved("j", T0)
        self.collector = RasCollector((("h", 1),), lambda: {50: Work("j", rank)}, self.movement, "c", query)

    def at(self, second: float) -> list[Event]:
        """The events of the tick and, where it began a poll, of the answer."""
        tick_ms = T0 + round(second * 1000)
        reading = self._collect(tick_ms)
        end = time.monotonic() + 20
        while self.collector._work.busy and time.monotonic() < end:
            more = self._collect(tick_ms)
            reading = Reading(drafts=reading.drafts + more.drafts)
        return [draft for draft in reading.drafts if isinstance(draft, Event)]

    def _collect(self, tick_ms: int) -> Reading:
        try:
            return self.collector.collect(tick_ms)
        except NoData:
            return Reading()


def test_a_job_that_moves_is_not_asked_about() -> None:
    bed = Bed(lambda where: pytest.fail("asked"))
    for second in range(0, 60, 5):
        bed.movement.moved("j", T0 + second * 1000)
        assert bed.at(second + 4) == []


def test_a_job_that_never_told_of_itself_is_not_asked_about() -> None:
    bed = Bed(lambda where: pytest.fail("asked"))
    bed.collector = RasCollector((("h", 1),), lambda: {50: Work("new", 0)}, Movement(), "c", lambda w: pytest.fail("x"))
    assert bed.at(100) == []


def test_only_the_node_of_rank_0_asks() -> None:
    assert Bed(lambda where: pytest.fail("asked"), rank=3).at(60) == []


def test_two_polls_fifteen_seconds_apart_name_the_rank_and_a_third_is_not_made() -> None:
    asked: list[int] = []

    def query(_: tuple[str, int]) -> bytes:
        asked.append(1)
        return status(late=2)

    bed = Bed(query)
    assert bed.at(9) == []
    assert bed.at(11) == []
    assert bed.at(20) == []
    (event,) = bed.at(26)
    assert (event.kind, event.severity, event.job, event.rank) == ("hang", "critical", "j", 2)
    assert event.detail["cause"] == "not_entered"
    for second in range(27, 120):
        assert bed.at(second) == []
    assert len(asked) == 2


def test_when_the_job_moves_again_it_is_said_and_the_next_standstill_is_asked_about() -> None:
    bed = Bed(lambda where: status(late=2))
    bed.at(11)
    assert [event.kind for event in bed.at(26)] == ["hang"]
    bed.movement.moved("j", T0 + 30_000)
    assert [event.kind for event in bed.at(30)] == ["hang_over"]
    bed.at(45)
    assert [event.kind for event in bed.at(60)] == ["hang"]


def test_the_event_becomes_a_finding_about_the_rank_and_closes() -> None:
    bed = Bed(lambda where: status(late=2))
    bed.at(11)
    (event,) = bed.at(26)
    means = meaning(event)
    assert means is not None
    assert (means.kind, means.cause, means.confidence) == ("hang", "not_entered", 0.85)
    watch = EventWatch("c", "n1")
    (finding,) = watch.note(_stamped(event, 1), "", T0)
    assert (finding.kind, finding.subject.job, finding.subject.rank, finding.victims) == ("hang", "j", 2, 3)
    bed.movement.moved("j", T0 + 30_000)
    (over,) = bed.at(30)
    assert [f.state for f in watch.note(_stamped(over, 2), "", T0)] == ["close"]


def _stamped(event: Event, seq: int) -> Event:
    return replace(event, cluster="c", node="n1", run_id=1, seq=seq, ts_ms=T0)


@pytest.mark.parametrize(("mood", "reason"), [("silent", "silent"), ("stops", "silent"), ("reset", "closed")])
def test_a_service_that_hangs_or_resets_is_an_error_in_time(mood: Any, reason: str) -> None:
    with FakeRas(mood, status()) as service, pytest.raises(RasUnreachable) as caught:
        ask(service.address, timeout_s=0.5)
    assert caught.value.reason == reason


def test_a_service_that_never_ends_its_line_is_left() -> None:
    with FakeRas("endless") as service, pytest.raises(RasUnreachable, match="another service"):
        ask(service.address, timeout_s=5)


def test_nobody_listens() -> None:
    with FakeRas() as service:
        where = service.address
    with pytest.raises(RasUnreachable) as caught:
        ask(where, timeout_s=2)
    assert caught.value.reason == "refused"


@pytest.mark.parametrize("mood", ["well", "old"])
def test_only_commands_that_read_are_sent(mood: Any) -> None:
    with FakeRas(mood, status()) as service:
        assert ask(service.address, timeout_s=5) == status()
    assert service.received == [b"CLIENT PROTOCOL 2\n", b"TIMEOUT 15\n", b"SET FORMAT json\n", b"VERBOSE STATUS\n"]


@pytest.mark.parametrize(("mood", "code"), [("garbage", "garbage"), ("reset", "closed")])
def test_the_collector_says_what_is_wrong_with_the_service(mood: Any, code: str) -> None:
    with FakeRas(mood, status()) as service:
        bed = Bed(lambda _: ask(service.address, timeout_s=5))
        with pytest.raises(CollectorError) as caught:
            bed.at(11)
    assert caught.value.code == code


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":28028", "localhost:99999", "a:b"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        address(text)
    assert address("[::1]:28028") == ("::1", 28028)


def test_a_node_has_it_only_where_an_address_is_given(tmp_path: Path) -> None:
    def on(address: str) -> object:
        settings = AgentSettings(node="n", spool_dir=str(tmp_path), ras_address=address)
        identity = Identity(cluster="c", node="n")
        return on_node(Node(identity, settings, Machine(), SystemClock(), Counters(), {}))

    assert on("") is None
    assert isinstance(on("localhost:28028, localhost:28029"), RasCollector)
    with pytest.raises(UserError, match="--ras-address"):
        on("localhost")


def test_work_that_raises_is_raised_where_it_is_taken() -> None:
    work: Background[int] = Background("test")
    work.start(lambda: 1 // 0)
    end = time.monotonic() + 10

    def result() -> int | None:
        while (taken := work.take()) is None and time.monotonic() < end:
            pass
        return taken

    with pytest.raises(ZeroDivisionError):
        result()
    assert not work.busy


def test_a_collective_that_ends_is_movement() -> None:
    def frame(sn: int, at: int) -> CollectiveFrame:
        return CollectiveFrame(
            **UNSTAMPED,
            ts_ms=at,
            job="j",
            communicators=(Communicator(id="0x1", name="", size=2, nodes=1, rank=0, comm_rank=0, gpu=""),),
            progress=(Progress(0, "AllReduce", sn, at),),
        )

    movement = Movement()
    assert movement.still_ms("j", 5) is None
    movement.frames([frame(1, 1000)])
    movement.frames([frame(1, 2000)])
    assert movement.still_ms("j", 3000) == 2000
    movement.frames([frame(2, 4000)])
    assert movement.still_ms("j", 4500) == 500
