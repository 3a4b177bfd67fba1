"""Controllers that answer wrongly, late or never: the others and the agent stay on time, and all is said once."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from fake_bmc import PASSWORD, FakeBmc
from fake_clock import FakeClock

from collectors.agent.core import AgentCore, Identity
from collectors.base import Reading
from collectors.cooling.redfish import RedfishCollector
from collectors.cooling.redfish_http import Login
from collectors.cooling.redfish_poll import Word
from collectors.cooling.redfish_targets import Target
from runtime.health import Counters
from schemas.event import Event
from schemas.frame import NodeFrame, RackFrame
from schemas.matrix import Matrix
from schemas.record import NodeRecord
from simulator.controllers import tray_tree

LEAKS = Matrix.of([f"t{i}/Manifold" for i in range(9)], ["leak_detected"], np.zeros((9, 1)))


def target(bmc: FakeBmc, node: str = "t1", timeout_s: float = 0.3, password: str = PASSWORD) -> Target:
    return Target(node + "-bmc", bmc.url, node, "r1", Login("monitor", password), None, "", timeout_s)


class Beat:
    """Another collector of the same agent."""

    name = "beat"
    interval_s = 1.0

    def collect(self, tick_ms: int) -> Reading:
        return Reading({"host": Matrix.of(["n1"], ["load_1m"], [[1.0]])})


class Stage:
    """An agent core whose ticks a test drives; every record is kept."""

    def __init__(self, targets: list[Target], interval_s: float = 0.05) -> None:
        self.clock = FakeClock()
        self.collector = RedfishCollector(targets, interval_s)
        core = AgentCore(
            Identity(cluster="c", node="n1", rack="r1"), [self.collector, Beat()], 1, self.clock, Counters()
        )
        self.core, self.records = core, list[NodeRecord]()
        self.slowest_s = 0.0

    def tick(self) -> None:
        self.clock.advance(1.0)
        begun = time.monotonic()
        self.records += self.core.tick(self.clock.now_ms() // 1000 * 1000)
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

    def until(self, what, within_s: float = 60.0) -> None:  # type: ignore[no-untyped-def]
        end = time.monotonic() + within_s
        while not what():
            assert time.monotonic() < end, [str(e.text) for e in self.events]
            self.tick()
            time.sleep(0.01)

    @property
    def events(self) -> list[Event]:
        return [r for r in self.records if isinstance(r, Event) and r.kind.startswith("collector")]

    @property
    def codes(self) -> list[tuple[str, str]]:
        return [(e.detail["bmc"], e.detail["code"]) for e in self.events]

    def rows(self, section: str = "leak") -> list[str]:
        return [row for f in self.frames if section in f.sections for row in f.sections[section].rows]

    @property
    def frames(self) -> list[RackFrame]:
        return [r for r in self.records if isinstance(r, RackFrame)]

    def answers(self, bmc: str) -> list[float]:
        out = []
        for frame in self.frames:
            if "bmc" in frame.sections and bmc in frame.sections["bmc"].rows:
                matrix = frame.sections["bmc"]
                out.append(float(matrix.column("answers")[matrix.rows.index(bmc)]))
        return out


@contextmanager
def stage(*bmcs: FakeBmc, timeout_s: float = 0.3) -> Iterator[Stage]:
    with ExitStack() as stack:
        for bmc in bmcs:
            stack.enter_context(bmc)
        made = Stage([target(bmc, f"t{i + 1}", timeout_s) for i, bmc in enumerate(bmcs)])
        stack.callback(made.collector.close)
        yield made


def healthy(node: str = "t1", mode: str = "well") -> FakeBmc:
    return FakeBmc(tray_tree(LEAKS, node), mode)


ODD = {
    "http_503": "http_503",
    "html": "not_json",
    "never": "timeout",
    "drip": "timeout",
    "reset": "unreachable",
    "cut": "cut",
    "loop": "redirects",
    "away": "redirects",
    "huge": "too_large",
    "deep": "not_json",
    "empty": "not_json",
}


@pytest.mark.parametrize("mode", ODD)
def test_a_controller_that_misbehaves_is_said_once_and_costs_nobody_else(mode: str) -> None:
    ill, well = healthy("t1"), healthy("t2")
    with stage(ill, well) as s:
        s.until(lambda: {"t1/Chassis_0/LeakDetectors/Manifold", "t2/Chassis_0/LeakDetectors/Manifold"} <= set(s.rows()))
        ill.mode = mode
        s.until(lambda: s.codes)
        before = len(s.answers("t2-bmc"))
        s.until(lambda: s.answers("t1-bmc").count(0.0) >= 2 and len(s.answers("t2-bmc")) > before + 2)
        assert s.codes == [("t1-bmc", ODD[mode])]
        ill.mode = "well"
        s.until(lambda: len(s.codes) == 2)
        assert s.codes[-1] == ("t1-bmc", "")
        assert [e.kind for e in s.events] == ["collector_failed", "collector_recovered"]
        assert set(s.answers("t2-bmc")) == {1.0}


def test_a_controllers_trouble_and_its_end_stand_in_the_agents_log(caplog: pytest.LogCaptureFixture) -> None:
    one = Target("t1-bmc", "http://10.3.7.1", "t1", "r1", Login("monitor", PASSWORD), None, "", 1.0)
    collector = RedfishCollector([], 1.0)
    with caplog.at_level("INFO", logger="collectors"):
        for code, text in (("http_503", "answered with status 503"), ("", "")):
            collector._board.put(Word(one, code, text))
            collector.collect(0)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "collector=redfish: controller t1-bmc: answered with status 503"),
        ("INFO", "collector=redfish: controller t1-bmc answers again"),
    ]
    collector.close()


def test_a_controller_that_never_answers_holds_up_no_tick_and_no_other_controller() -> None:
    """Far below the deadline of the one that is waited for."""
    with stage(healthy("t1", "never"), healthy("t2"), timeout_s=30.0) as s:
        s.until(lambda: s.answers("t2-bmc").count(1.0) >= 5)
        assert s.slowest_s < 10
        assert s.codes == []
        frames = [r for r in s.records if isinstance(r, NodeFrame)]
        assert [f.ts_ms for f in frames] == list(range(frames[0].ts_ms, frames[-1].ts_ms + 1, 1000))
        assert all("host" in f.sections for f in frames)


def test_a_forgotten_session_is_made_anew_once_and_says_nothing() -> None:
    bmc = healthy()
    with stage(bmc) as s:
        s.until(lambda: s.answers("t1-bmc").count(1.0) >= 2)
        bmc.mode = "forget"
        seen = len(s.answers("t1-bmc"))
        s.until(lambda: len(s.answers("t1-bmc")) >= seen + 3)
        assert (bmc.logins, s.codes) == (2, [])
        assert set(s.answers("t1-bmc")) == {1.0}


def test_sessions_are_never_more_than_one_and_none_is_left_behind() -> None:
    bmc = FakeBmc(tray_tree(LEAKS, "t1"), most=1)
    with stage(bmc) as s:
        s.until(lambda: s.answers("t1-bmc").count(1.0) >= 4)
        assert (bmc.logins, len(bmc.sessions)) == (1, 1)
        s.collector.close()
        assert bmc.sessions == []


def test_a_refused_password_is_tried_once_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Controllers lock a user out after a few refusals."""
    bmc = healthy(mode="refuse")
    with stage(bmc) as s:
        s.until(lambda: s.codes)
        for _ in range(20):
            s.tick()
        assert s.codes == [("t1-bmc", "unauthorized")]
        assert bmc.logins == 1
    assert PASSWORD not in caplog.text + repr(s.records) + repr(target(bmc))


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_jumps_an_hour_stops_no_poll(hours: int) -> None:
    with stage(healthy()) as s:
        s.until(lambda: s.answers("t1-bmc").count(1.0) >= 2)
        s.clock.step(3600.0 * hours)
        seen = len(s.answers("t1-bmc"))
        s.until(lambda: len(s.answers("t1-bmc")) >= seen + 3)
        assert s.codes == []
        assert abs(s.frames[-1].ts_ms - s.clock.now_ms()) < 5000


def test_one_resource_that_fails_costs_only_itself() -> None:
    bmc = healthy()
    del bmc.tree["/redfish/v1/Chassis/Chassis_0/ThermalSubsystem/Fans/Fan_1"]
    with stage(bmc) as s:
        s.until(lambda: s.answers("t1-bmc").count(1.0) >= 2)
        assert s.codes == []
        assert {row for row in s.rows("fan")} == {"t1/Chassis_0/Fans/Fan_0"}


def test_a_part_that_goes_away_is_counted_and_never_repeated() -> None:
    bmc = healthy()
    with stage(bmc) as s:
        s.until(lambda: s.answers("t1-bmc").count(1.0) >= 1)
        del bmc.tree["/redfish/v1/Chassis/Chassis_0/ThermalSubsystem/Fans/Fan_0"]
        s.until(lambda: any("not_found" in f.missing for f in s.frames))
        count = s.rows("fan").count("t1/Chassis_0/Fans/Fan_0")
        s.until(lambda: s.answers("t1-bmc").count(1.0) >= 6)
        assert s.rows("fan").count("t1/Chassis_0/Fans/Fan_0") == count
