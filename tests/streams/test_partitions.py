"""What the partitions of the agents do beyond handing records to detectors."""

from collections.abc import Sequence
from functools import partial

from stand_in import StandInBook, StandInJob, StandInNode
from stream_stage import START_MS

from runtime.deadletters import dead_letter
from runtime.health import Counters
from schemas import (
    Baselines,
    CollectiveFrame,
    DeadLetter,
    Features,
    Finding,
    Incident,
    Inventory,
    NodeFrame,
    Record,
    StepFrame,
)
from schemas.codec import encode
from schemas.matrix import Matrix
from schemas.topics import HOUR_MS
from streams.acknowledge import Offsets, Token
from streams.incident import IncidentPartition
from streams.job import JobPartition
from streams.lane import Key, Step
from streams.node import NodePartition
from streams.partition import EventTime, Open, Surroundings
from streams.places import Places
from streams.state import read


class Table:
    """One partition and what it stores."""

    def __init__(self, open_partition: Open) -> None:
        self.counters, self.event_time, self.places = Counters(), EventTime(), Places()
        self.stored: dict[bytes, bytes] = {}
        self.unread: set[str] = set()
        self.offsets: dict[str, Offsets] = {}
        self.steps: list[Step] = []
        self._open = open_partition
        self.restart()

    def restart(self) -> None:
        around = Surroundings(self.counters, self.event_time, self.places, self._letter, self.unread.__contains__, 5000)
        self.partition = self._open(3, read(self.stored.items()), around)
        self._keep([self.partition.restored()])

    def take(self, record: Record, lag_s: float = 0.0) -> list[Step]:
        offsets = self.offsets.setdefault(record.topic, Offsets())
        offset = offsets.next
        offsets.take(offset)
        return self._keep(self.partition.take(record, Token(offsets, record.topic, 3, offset), lag_s))

    def tick(self) -> None:
        self._keep(self.partition.tick())

    def findings(self) -> list[Finding]:
        return [record for step in self.steps for record in step.findings if isinstance(record, Finding)]

    def _keep(self, steps: Sequence[Step]) -> list[Step]:
        for step in steps:
            for key, value in step.state:
                if value is None:
                    self.stored.pop(key, None)
                else:
                    self.stored[key] = value
            for token in step.tokens:
                token.finish()
        self.steps += steps
        return list(steps)

    def _letter(self, token: Token, record: Record, reason: str, detail: str) -> DeadLetter:
        return dead_letter("c", "w", (token.topic, token.partition, token.offset), reason, detail, encode(record), 1)


def frame(node: str, tick: int, cluster: str = "c") -> NodeFrame:
    return NodeFrame(cluster=cluster, ts_ms=START_MS + 1000 * tick, node=node, run_id=1, seq=tick)


def test_a_node_that_stops_reporting_is_silent_unless_the_worker_lags() -> None:
    said = {}
    for lag_s in (0.1, 7.0):
        table = Table(partial(NodePartition, make=StandInNode))
        for tick in range(30):
            for node in ("n1", "n2", "n3", "n4", "n5"):
                if node != "n3" or tick < 10:
                    table.take(frame(node, tick), lag_s)
        said[lag_s] = [(f.subject.node, f.cause, f.state) for f in table.findings()]
    assert said[0.1][0] == ("n3", "node_lost", "open")
    assert said[7.0] == []


def test_an_open_silence_outlives_a_restart() -> None:
    table = Table(partial(NodePartition, make=StandInNode))
    nodes = ["n1", "n2", "n3", "n4", "n5"]
    for tick in range(20):
        for node in nodes[: 5 if tick < 10 else 4]:
            table.take(frame(node, tick))
    (opened,) = table.findings()
    table.restart()
    for tick in range(20, 40):
        for node in nodes:
            table.take(frame(node, tick))
    assert {f.id for f in table.findings()} == {opened.id}
    assert table.findings()[-1].state == "close"


def test_clusters_on_one_broker_do_not_disturb_each_other() -> None:
    table = Table(partial(NodePartition, make=StandInNode))
    for tick in range(30):
        table.take(frame("n1", tick, "a"))
        table.take(frame("n1", tick + 3000, "b"))
    assert table.findings() == []
    scores = [record.gpus[0].score for step in table.steps for record in step.outputs if isinstance(record, Features)]
    assert max(scores) == 30


def test_time_is_the_median_of_the_node_partitions() -> None:
    time = EventTime()
    assert time.now_ms("c") is None
    for partition, reached in enumerate((5000, 900_000, 6000)):
        time.reached("c", partition, reached)
    assert (time.now_ms("c"), time.now_ms("other")) == (6000, None)
    time.left(2)
    assert time.now_ms("c") == 5000


def test_a_node_tells_the_time_and_takes_it_away_with_it() -> None:
    table = Table(partial(NodePartition, make=StandInNode))
    for tick in range(5):
        table.take(frame("n1", tick))
    assert table.event_time.now_ms("c") == START_MS + 2000
    table.partition.close()
    assert table.event_time.now_ms("c") is None


def step_frame(job: str, node: str, tick: int) -> StepFrame:
    return StepFrame(cluster="c", ts_ms=START_MS + 1000 * tick, node=node, run_id=1, seq=tick, job=job)


def test_a_job_nobody_hears_of_is_forgotten_with_its_state() -> None:
    table = Table(partial(JobPartition, make=StandInJob))
    for tick in range(40):
        table.take(step_frame("old", "n1", tick))
        table.take(step_frame("new", "n2", tick))
    assert {key.name for key in read(table.stored.items())} == {"", "old", "new"}
    later = 7 * HOUR_MS // 1000
    for tick in range(later, later + 200):
        table.take(step_frame("new", "n2", tick))
    assert {key.name for key in read(table.stored.items())} == {"", "new"}


def test_features_without_a_job_and_baselines_are_passed_over_at_once() -> None:
    table = Table(partial(JobPartition, make=StandInJob))
    table.take(Features(cluster="c", ts_ms=START_MS, node="n1", run_id=1, seq=1))
    nothing = Matrix.of([], [], [])
    table.take(Baselines(cluster="c", ts_ms=START_MS, node="n1", run_id=1, seq=1, centre=nothing, spread=nothing))
    assert table.offsets["features"].committable == 2


def test_a_node_whose_clock_is_wrong_holds_up_no_job() -> None:
    table = Table(partial(JobPartition, make=StandInJob))
    for tick in range(40):
        for node in ("n1", "n2", "n3"):
            table.take(step_frame("j", node, tick))
        table.take(step_frame("j", "n4", tick + 90_000))
    assert table.counters.totals()["dropped{clock_wrong}"] == 40
    assert table.offsets["steps"].open < 20


def collective_frame(job: str, node: str, tick: int) -> CollectiveFrame:
    return CollectiveFrame(cluster="c", ts_ms=START_MS + 1000 * tick, node=node, run_id=1, seq=tick, job=job)


def test_a_topic_that_runs_ahead_while_a_backlog_is_read_makes_no_record_late() -> None:
    table = Table(partial(JobPartition, make=StandInJob))
    table.unread |= {"steps", "collectives"}
    for tick in range(100):
        for node in ("n1", "n2"):
            table.take(step_frame("j", node, tick))
    assert table.partition.ahead() == set(), "nothing is known yet of the others"
    assert table.offsets["steps"].open == 200
    for tick in range(60):
        for node in ("n1", "n2"):
            table.take(collective_frame("j", node, tick))
    assert table.partition.ahead() == {"steps"}
    for tick in range(60, 100):
        for node in ("n1", "n2"):
            table.take(collective_frame("j", node, tick))
    assert table.partition.ahead() == set()
    assert table.counters.totals() == {}
    assert table.offsets["steps"].open < 20


def test_a_topic_that_is_quiet_holds_up_nothing() -> None:
    table = Table(partial(JobPartition, make=StandInJob))
    for tick in range(100):
        for node in ("n1", "n2"):
            table.take(collective_frame("j", node, tick))
            if tick < 20:
                table.take(step_frame("j", node, tick))
    assert table.offsets["collectives"].open < 10
    assert table.partition.ahead() == set()


def test_a_job_that_ended_does_not_hold_up_the_next_one_on_other_nodes() -> None:
    table = Table(partial(JobPartition, make=StandInJob))
    for tick in range(40):
        for node in range(8):
            table.take(step_frame("first", f"a{node}", tick))
    for tick in range(300, 400):
        for node in range(3):
            table.take(step_frame("second", f"b{node}", tick))
    newest = {key.name: one.of("position")["judged"] for key, one in read(table.stored.items()).items() if key.name}
    assert int(newest["second"]) > START_MS + 390_000
    assert table.offsets["steps"].open < 30


def test_the_last_ticks_of_a_job_that_ended_are_judged_when_the_nodes_have_gone_on() -> None:
    table = Table(partial(JobPartition, make=StandInJob))
    for tick in range(40):
        for node in ("n1", "n2"):
            if node == "n1" or tick < 35:
                table.take(step_frame("j", node, tick))
    held = table.offsets["steps"].open
    table.event_time.reached("c", 0, START_MS + 60_000)
    table.partition.tick()
    assert table.offsets["steps"].open == held, "not yet"
    table.event_time.reached("c", 0, START_MS + 70_000)
    table.tick()
    assert held > 0
    assert table.offsets["steps"].open == 0


def test_a_single_node_among_the_gone_is_judged_and_committed() -> None:
    table = Table(partial(JobPartition, make=StandInJob))
    for tick in range(200):
        for node in range(5):
            if tick < 30 or node == 0:
                table.take(step_frame("j" if node else "alone", f"n{node}", tick))
    assert table.offsets["steps"].open < 30


def test_incidents_grow_old_with_the_nodes_and_learn_where_nodes_are() -> None:
    heard: list[object] = []

    class Listening(StandInBook):
        def apply(self, record: Finding | Inventory, /) -> Sequence[Incident]:
            heard.append((type(record).__name__, getattr(record, "rack", "")))
            return super().apply(record)

        def advance(self, ts_ms: int, /) -> Sequence[Incident]:
            heard.append(ts_ms - START_MS)
            return super().advance(ts_ms)

    nodes = Table(partial(NodePartition, make=StandInNode))
    bad = NodeFrame(cluster="c", ts_ms=START_MS, node="n1", run_id=1, seq=1, missing={"bad": 1})
    nodes.take(bad)
    table = Table(partial(IncidentPartition, make=Listening))
    table.places.take(encode(Inventory(cluster="c", ts_ms=1, node="n1", run_id=1, seq=1, rack="r7")))
    table.places.take(b"nonsense")
    table.take(nodes.findings()[0])
    for reached_s in (9, 30, 30):
        table.event_time.reached("c", 0, START_MS + 1000 * reached_s)
        table.tick()
    assert heard == [("Inventory", "r7"), ("Finding", ""), 20_000]
    assert Key("c", "") in read(table.stored.items())
