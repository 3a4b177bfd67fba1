"""The sampler process: driver calls that hang, really, in a process of their own."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from collectors.agent.sampler import Sampler
from collectors.base import CollectorError, NoData, Reading
from collectors.gpu.known import KnownGpus
from runtime.clock import SystemClock
from runtime.health import Counters
from schemas.event import Event

SUPPORT = Path(__file__).parents[1] / "support"
DEADLINE_S = 1.0


class Rig:
    """A sampler whose collectors obey files in `folder`."""

    def __init__(self, folder: Path, remembers: bool = False, **more: float) -> None:
        self.folder, self.counters = folder, Counters()
        known = KnownGpus(folder / "gpus", SystemClock(), self.counters) if remembers else None
        settings = {"deadline_s": DEADLINE_S, "pause_s": 0.05} | more
        environment = dict(os.environ) | {"PYTHONPATH": str(SUPPORT)}
        self.sampler = Sampler(
            "sampler_factories:obedient",
            str(folder),
            SystemClock(),
            self.counters,
            environment,
            known=known,
            **settings,
        )
        self.tick_ms = 0

    def order(self, what: str) -> None:
        (self.folder / what).touch()

    def relieve(self, what: str) -> None:
        (self.folder / what).unlink()

    def ask(self, name: str = "gpu") -> Reading:
        self.tick_ms += 1
        return self.sampler.ask(name, self.tick_ms)

    def until_it_reads(self, name: str = "gpu", within_s: float = 30.0) -> Reading:
        """Ask until there is a reading; a machine under load starts processes slowly."""
        until = time.monotonic() + within_s
        while True:
            try:
                return self.ask(name)
            except (NoData, CollectorError):
                assert time.monotonic() < until
                time.sleep(0.02)

    def fails(self, name: str = "gpu") -> CollectorError:
        with pytest.raises(CollectorError) as raised:
            self.ask(name)
        return raised.value


def pid(reading: Reading) -> int:
    (draft,) = reading.drafts
    assert isinstance(draft, Event)
    return int(draft.text)


def value(reading: Reading) -> float:
    return float(reading.sections["gpu"].column("power_w")[0])


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.sampler.close()


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def eventually(what: Callable[[], bool], within_s: float = 10.0) -> None:
    until = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_readings_come_from_another_process_whole(rig: Rig) -> None:
    reading = rig.until_it_reads()
    assert pid(reading) != os.getpid()
    assert value(reading) == rig.tick_ms
    assert reading.gpus[0].pci == "0000:1b:00.0"
    assert reading.missing == {"blank": 1}
    assert pid(rig.ask("jobs")) == pid(reading)


def test_the_first_ticks_do_not_wait_for_a_slow_start(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.order("slow_start")
    begun = time.monotonic()
    with pytest.raises(NoData, match="starting"):
        rig.ask()
    assert time.monotonic() - begun < 1.0
    rig.until_it_reads()
    rig.sampler.close()


def test_a_hanging_call_is_a_stall_with_blank_values_and_the_agent_waits_one_deadline_only(rig: Rig) -> None:
    good = rig.until_it_reads()
    rig.order("hang")
    begun = time.monotonic()
    stalled = rig.fails()
    assert DEADLINE_S <= time.monotonic() - begun < 5 * DEADLINE_S
    assert (stalled.code, stalled.kind) == ("stalled", "collector_stalled")
    assert stalled.partial is not None
    assert stalled.partial.gpus == good.gpus
    assert stalled.partial.missing == {"timeout": 1}
    assert np.isnan(value(stalled.partial))
    begun = time.monotonic()
    for _ in range(5):
        assert rig.fails().code == "stalled"
        assert rig.fails("jobs").code == "stalled"
    assert time.monotonic() - begun < DEADLINE_S
    rig.relieve("hang")
    after = rig.until_it_reads()
    assert pid(after) == pid(good)
    assert value(after) == rig.tick_ms


def test_a_late_answer_is_dropped_and_never_sent_as_new(rig: Rig) -> None:
    rig.until_it_reads()
    rig.order("hang")
    rig.fails()
    late_tick = rig.tick_ms
    rig.relieve("hang")
    reading = rig.until_it_reads()
    assert value(reading) == rig.tick_ms > late_tick
    assert rig.counters.totals()["dropped{late_answer}"] == 1


def test_a_process_that_stays_silent_is_killed_and_replaced_and_told_which_gpus_there_were(tmp_path: Path) -> None:
    rig = Rig(tmp_path, kill_after_s=1.5)
    first = pid(rig.until_it_reads())
    rig.order("sleep_for_ever")
    until = time.monotonic() + 30
    while not gone(first):
        assert rig.fails().kind == "collector_stalled"
        assert time.monotonic() < until
        time.sleep(0.05)
    rig.relieve("sleep_for_ever")
    reading = rig.until_it_reads()
    assert pid(reading) != first
    (draft,) = reading.drafts
    assert isinstance(draft, Event)
    assert draft.detail == {"known": "GPU-0"}
    rig.sampler.close()


def test_the_next_agent_is_told_which_gpus_the_one_before_had(tmp_path: Path) -> None:
    first = Rig(tmp_path, remembers=True)
    first.until_it_reads()
    first.sampler.close()
    second = Rig(tmp_path, remembers=True)
    (draft,) = second.until_it_reads().drafts
    second.sampler.close()
    assert isinstance(draft, Event)
    assert draft.detail["known"] == "GPU-0"


def test_a_process_that_dies_is_replaced(rig: Rig) -> None:
    first = pid(rig.until_it_reads())
    rig.order("die")
    died = rig.fails()
    assert died.code == "sampler_died"
    assert "status 3" in died.text
    assert died.partial is not None
    assert died.partial.missing == {"timeout": 1}
    rig.relieve("die")
    assert pid(rig.until_it_reads()) != first


def test_one_that_cannot_start_is_tried_again_after_growing_pauses(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.order("cannot_start")
    codes = set()
    until = time.monotonic() + 30
    while rig.counters.totals().get("errors{sampler_sampler_died}", 0) < 2:
        assert time.monotonic() < until
        try:
            rig.ask()
        except NoData:
            pass
        except CollectorError as error:
            codes.add(error.code)
        time.sleep(0.02)
    assert codes == {"sampler_died"}
    rig.relieve("cannot_start")
    rig.until_it_reads()
    rig.sampler.close()


def test_no_data_and_crashes_are_told_as_they_are_and_the_process_lives(rig: Rig) -> None:
    first = pid(rig.until_it_reads())
    rig.order("no_data")
    with pytest.raises(NoData, match="nothing here"):
        rig.ask()
    rig.relieve("no_data")
    rig.order("crash")
    crashed = rig.fails()
    assert (crashed.code, crashed.text) == ("crashed", "ValueError: what is this")
    rig.relieve("crash")
    assert pid(rig.ask()) == first


def test_a_driver_that_changed_gets_a_new_process(rig: Rig) -> None:
    first = pid(rig.until_it_reads())
    rig.order("restart")
    assert rig.fails().kind == "driver_mismatch"
    assert rig.fails().kind == "driver_mismatch"
    rig.relieve("restart")
    assert pid(rig.until_it_reads()) != first


def test_closing_ends_the_process_even_while_it_hangs(tmp_path: Path) -> None:
    for order in ("", "sleep_for_ever"):
        rig = Rig(tmp_path)
        process = pid(rig.until_it_reads())
        if order:
            rig.order(order)
            rig.fails()
        rig.sampler.close()
        eventually(lambda process=process: gone(process))  # type: ignore[misc]


def test_a_process_whose_agent_is_gone_ends(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    process = rig.until_it_reads()
    child = rig.sampler._process
    assert child is not None
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(10) == 0
    assert pid(process) == child.pid
    rig.sampler.close()
