"""The incident book: one fault, one incident, whatever the order, the repeats and the restarts."""

from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from detectors.incident.book import CONFIRM_MS, RECOVER_MS, UNHEARD_MS, IncidentBook
from detectors.incident.words import action
from detectors.state import StateError
from schemas import Event, Finding, Incident, Inventory
from schemas.finding import Evidence, Subject
from schemas.identity import incident_id
from schemas.inventory import JobMembership

T0 = 1_800_000_000_000
RANK = Subject(scope="rank", job="j", rank=6, node="r01-t01", gpu="GPU-6")
GPU = Subject(scope="gpu", node="r01-t01", gpu="GPU-6")


def finding(id_: str = "f-1", subject: Subject = RANK, at: int = 0, **fields: Any) -> Finding:
    base: dict[str, Any] = {
        "cluster": "c", "ts_ms": T0 + at, "id": id_, "revision": 0, "detector": f"d.{id_}", "state": "open",
        "kind": "straggler", "cause": "unknown", "subject": subject, "onset_ms": T0 + at, "confidence": 0.5,
        "victims": 15, "summary": f"said of {id_}", "evidence": (Evidence(text=f"fact of {id_}"),),
    }  # fmt: skip
    return Finding(**(base | fields))


def book(*findings: Finding | Inventory) -> tuple[IncidentBook, list[Incident]]:
    b = IncidentBook("c")
    return b, [i for f in findings for i in b.apply(f)]


def test_a_life_from_suspect_to_resolved() -> None:
    b, said = book(finding())
    assert [(i.change, i.state, i.revision) for i in said] == [("open", "suspect", 0)]
    assert said[0].id == incident_id("c", "f-1")
    assert b.advance(T0 + CONFIRM_MS - 1) == []
    (confirmed,) = b.advance(T0 + CONFIRM_MS)
    assert (confirmed.change, confirmed.state) == ("update", "confirmed")
    (recovering,) = b.apply(finding(revision=1, state="close", at=20_000))
    assert recovering.state == "recovering"
    (resolved,) = b.advance(T0 + 20_000 + RECOVER_MS)
    assert (resolved.change, resolved.state, resolved.resolved_ms) == ("resolve", "resolved", T0 + 50_000)
    assert b.open() == ()


def test_a_sure_verdict_is_confirmed_at_once() -> None:
    _, said = book(finding(confidence=0.9))
    assert said[0].state == "confirmed"


def test_what_collectives_and_steps_both_show_is_confirmed_at_once_whatever_the_cause() -> None:
    arrival, steps = Evidence(text="came last", metric="exec_time_us"), Evidence(text="longer", metric="step_us")
    assert [i.state for i in book(finding(evidence=(steps, arrival)))[1]] == ["confirmed"]
    for one in (arrival, steps):
        assert [i.state for i in book(finding(evidence=(one,)))[1]] == ["suspect"]


def test_a_rank_whose_steps_show_both_sides_is_confirmed_at_once_where_no_hardware_is_blamed() -> None:
    own, step = (Evidence(text=m, metric=m) for m in ("self_us", "step_us"))
    node = Subject(scope="node", job="j", node="r01-t01")

    def state(**fields: Any) -> str:
        return book(finding(**({"evidence": (own, step), "cause": "python_stall"} | fields)))[1][-1].state

    assert state() == "confirmed"
    assert state(cause="gpu_degraded") == state(evidence=(step,)) == state(subject=node) == "suspect"


def test_an_agent_that_loses_records_is_no_witness_against_its_node() -> None:
    node = Subject(scope="node", node="r01-t01")
    slow = finding(subject=GPU, kind="degradation", cause="gpu_degraded")
    spool = finding("f-2", subject=node, kind="degradation", cause="pipeline")
    b, said = book(slow, spool)
    assert [(i.state, i.cause) for i in said] == [("suspect", "gpu_degraded"), ("suspect", "pipeline")]
    assert len(b.open()) == 2


def test_what_ends_before_it_is_confirmed_pages_nobody() -> None:
    b, said = book(finding(), finding(revision=1, state="close", at=1000))
    said += b.advance(T0 + 1000 + RECOVER_MS)
    assert [i.state for i in said] == ["suspect", "resolved"]


def test_it_comes_back_while_recovering() -> None:
    b, _ = book(finding(confidence=0.9), finding(revision=1, state="close", at=10_000))
    (again,) = b.apply(finding("f-2", at=20_000))
    assert (again.id, again.state) == (incident_id("c", "f-1"), "confirmed")


def test_repeats_and_heartbeats_are_no_revisions() -> None:
    b, _ = book(finding(confidence=0.9))
    assert b.apply(finding(confidence=0.9)) == []
    assert b.apply(finding(confidence=0.9, revision=1, state="heartbeat", at=10_000)) == []


def test_the_same_gpu_is_the_same_incident_and_the_driver_knows_better_why() -> None:
    _, said = book(
        finding(cause="gpu_degraded", confidence=0.6),
        finding("f-2", GPU, 1000, kind="degradation", cause="thermal_throttle", confidence=0.9),
    )
    assert {i.id for i in said} == {incident_id("c", "f-1")}
    last = said[-1]
    assert (last.kind, last.cause, last.runner_up) == ("straggler", "thermal_throttle", "gpu_degraded")
    assert last.findings == ("f-1", "f-2")
    assert last.state == "confirmed"
    assert [s.rank for s in last.culprits] == [6]


def test_different_ranks_are_different_incidents() -> None:
    other = Subject(scope="rank", job="j", rank=9, node="r01-t02", gpu="GPU-9")
    b, _ = book(finding(), finding("f-2", other))
    assert len(b.open()) == 2


def test_a_hang_absorbs_what_was_slow_in_its_job() -> None:
    other = Subject(scope="rank", job="j", rank=9, node="r01-t02", gpu="GPU-9")
    b, _ = book(finding(), finding("f-2", other, 1000))
    hang = finding("f-3", Subject(scope="job", job="j"), 2000, kind="hang", cause="not_entered", confidence=0.8)
    said = b.apply(hang)
    assert [(i.id, i.change) for i in said] == [
        (incident_id("c", "f-2"), "resolve"),
        (incident_id("c", "f-1"), "update"),
    ]
    assert said[0].findings == ()
    (left,) = b.open()
    assert (left.kind, left.severity, left.findings) == ("hang", "critical", ("f-1", "f-2", "f-3"))


def test_a_standstill_is_one_incident_and_led_by_who_names_the_rank() -> None:
    """The job's own detector knows that it stands, RAS and dumps know for whom."""
    group = Subject(scope="group", job="j", group="of ranks 4, 5, 6, 7")
    bare = Subject(scope="rank", job="j", rank=6)
    _, said = book(
        finding("f-g", group, kind="hang", cause="transport_stalled", confidence=0.7),
        finding("f-r", bare, at=1000, kind="hang", cause="not_entered", confidence=0.85),
        finding("f-n", RANK, at=2000, kind="hang", cause="not_entered", confidence=0.8),
        finding(
            "f-o", Subject(scope="rank", job="j", rank=9), at=3000, kind="hang", cause="not_entered", confidence=0.85
        ),
    )
    assert len({incident.id for incident in said}) == 1
    assert (said[-1].scope, said[-1].cause) == ("rank", "not_entered")
    assert sorted((s.rank or 0, s.gpu) for s in said[-1].culprits) == [(6, "GPU-6"), (9, "")]


def test_an_xid_explains_a_hang() -> None:
    b, _ = book(
        finding(kind="hang", cause="not_entered", confidence=0.8),
        finding("f-2", GPU, 1000, kind="hardware", cause="gpu_lost", confidence=0.9),
    )
    (incident,) = b.open()
    assert (incident.kind, incident.cause) == ("hang", "gpu_lost")
    assert "power-cycle" in incident.action


def test_a_racks_cooling_absorbs_its_gpus_heat() -> None:
    b = IncidentBook("c")
    for node, rack in (("a1", "r1"), ("b1", "r2")):
        b.apply(Inventory(cluster="c", ts_ms=T0, node=node, run_id=1, seq=1, rack=rack))
    for i, node in enumerate(("a1", "b1")):
        gpu = Subject(scope="gpu", node=node, gpu=f"GPU-{i}")
        b.apply(finding(f"f-{i}", gpu, kind="degradation", cause="thermal_throttle", confidence=0.9))
    rack = Subject(scope="rack", rack="r1")
    b.apply(finding("f-9", rack, 5000, kind="cooling", cause="coolant_flow", confidence=0.85))
    incidents = {i.scope: i for i in b.open()}
    assert incidents["rack"].findings == ("f-0", "f-9")
    assert (incidents["rack"].cause, incidents["rack"].id) == ("coolant_flow", incident_id("c", "f-0"))
    assert incidents["gpu"].findings == ("f-1",)


def test_a_unit_that_serves_several_racks_absorbs_the_heat_in_all_of_them() -> None:
    b = IncidentBook("c")
    for node, rack in (("a1", "r1"), ("b1", "r2"), ("c1", "r3")):
        loop = "" if rack == "r3" else "cdu-1"
        b.apply(Inventory(cluster="c", ts_ms=T0, node=node, run_id=1, seq=1, rack=rack, cooling_loop=loop))
    unit = Subject(scope="rack", rack="cdu-1")
    b.apply(finding("f-9", unit, kind="cooling", cause="pump_fan", confidence=0.85))
    for i, node in enumerate(("a1", "b1", "c1")):
        gpu = Subject(scope="gpu", node=node, gpu=f"GPU-{i}")
        b.apply(finding(f"f-{i}", gpu, 1000, kind="degradation", cause="thermal_throttle", confidence=0.9))
    loop_of_rack = Subject(scope="rack", rack="r2")
    b.apply(finding("f-8", loop_of_rack, 2000, kind="cooling", cause="coolant_flow", confidence=0.9))
    incidents = {i.findings: i for i in b.open()}
    assert set(incidents) == {("f-0", "f-1", "f-8", "f-9"), ("f-2",)}
    again = IncidentBook("c")
    again.restore(b.state())
    assert {i.findings for i in again.open()} == set(incidents)


def test_gpus_of_a_standing_job_look_odd_and_are_not_accused() -> None:
    b = IncidentBook("c")
    member = JobMembership(job="j", rank=0, gpu="GPU-0")
    b.apply(Inventory(cluster="c", ts_ms=T0, node="n", run_id=1, seq=1, memberships=(member,)))
    b.apply(finding(kind="hang", cause="not_entered", confidence=0.8))
    b.apply(finding("f-2", Subject(scope="gpu", node="n", gpu="GPU-0"), kind="degradation", confidence=0.3))
    (incident,) = b.open()
    assert [s.rank for s in incident.culprits] == [6]


def test_a_node_takes_its_ranks_in() -> None:
    node = Subject(scope="node", job="j", node="r01-t01")
    b, _ = book(finding(), finding("f-2", node, 1000, cause="host_cpu", confidence=0.7))
    b.apply(finding("f-2", node, 9000, revision=1, state="close", cause="host_cpu"))
    (incident,) = b.open()
    assert (incident.scope, [s.label() for s in incident.culprits]) == ("node", ["node r01-t01"])


def test_an_event_on_the_culprit_is_evidence() -> None:
    b, _ = book(finding())
    event = Event(
        cluster="c", ts_ms=T0 + 1000, node="r01-t01", run_id=1, seq=5, kind="xid", code=63, severity="warning",
        gpu="GPU-6", text="row remapping pending",
    )  # fmt: skip
    (incident,) = b.apply(event)
    assert any("XID 63" in e.text for e in incident.evidence)
    assert b.apply(event) == []


def test_a_detector_that_fell_silent_keeps_nothing_open_for_ever() -> None:
    b, _ = book(finding(confidence=0.9))
    said = b.advance(T0 + UNHEARD_MS + 1)
    said += b.advance(T0 + UNHEARD_MS + 1 + RECOVER_MS)
    assert [i.state for i in said] == ["recovering", "resolved"]


def test_a_late_repeat_of_what_is_over_opens_nothing() -> None:
    b, _ = book(finding(confidence=0.9), finding(revision=1, state="close", at=1000))
    b.advance(T0 + 1000 + RECOVER_MS)
    assert b.apply(finding(confidence=0.9)) == []
    assert b.apply(finding(revision=1, state="close", at=1000)) == []
    assert b.open() == ()


def test_a_reader_gets_where_to_look_and_since_when() -> None:
    _, said = book(finding(onset_step=102, confidence=0.9))
    assert "FROM steps FINAL\nWHERE cluster = 'c' AND ts BETWEEN" in said[0].sql
    assert "AND job = 'j'" in said[0].sql
    assert said[0].summary.endswith("since 08:00:00 UTC (step 102)")
    assert said[0].action
    hostile = msgspec.structs.replace(RANK, job="j' OR 1=1 --")
    assert "'j\\' OR 1=1 --'" in book(finding(subject=hostile))[1][0].sql


def test_a_broken_state_is_refused() -> None:
    with pytest.raises(StateError):
        IncidentBook("c").restore({"": b"\x00"})


SUBJECTS = [
    RANK,
    GPU,
    Subject(scope="rank", job="j", rank=9, node="r01-t02", gpu="GPU-9"),
    Subject(scope="gpu", node="r02-t01", gpu="GPU-20"),
    Subject(scope="node", job="j", node="r01-t01"),
    Subject(scope="node", node="r01-t02"),
    Subject(scope="job", job="j"),
    Subject(scope="rack", rack="r01"),
]
KINDS = ["straggler", "hang", "slow_link", "hardware", "cooling", "imbalance", "degradation"]
CAUSES = ["unknown", "gpu_degraded", "thermal_throttle", "gpu_lost", "coolant_flow", "not_entered"]


class Lives(RuleBasedStateMachine):
    """Findings of random subjects live and die in any order, with repeats, pauses and restarts between."""

    def __init__(self) -> None:
        super().__init__()
        self.book = IncidentBook("c")
        self.now = 0
        self.living: dict[str, Finding] = {}
        self.history: list[Finding] = []
        self.revisions: dict[str, Incident] = {}
        self.count = 0

    def told(self, said: list[Incident]) -> None:
        for incident in said:
            before = self.revisions.get(incident.id)
            if before is None:
                assert (incident.change, incident.revision) == ("open", 0)
            else:
                assert incident.revision == before.revision + 1
                assert before.change != "resolve"
                assert incident.change in ("update", "resolve")
            assert incident.ts_ms == T0 + self.now
            self.revisions[incident.id] = incident

    @rule(
        subject=st.sampled_from(SUBJECTS),
        kind=st.sampled_from(KINDS),
        cause=st.sampled_from(CAUSES),
        sure=st.booleans(),
    )
    def opens(self, subject: Subject, kind: str, cause: str, sure: bool) -> None:
        self.count += 1
        said = finding(f"f-{self.count}", subject, self.now, kind=kind, cause=cause, confidence=0.9 if sure else 0.4)
        self.living[said.id] = said
        self.say(said)

    @rule(data=st.data(), state=st.sampled_from(["change", "heartbeat", "close"]))
    def goes_on(self, data: st.DataObject, state: str) -> None:
        if not self.living:
            return
        before = self.living[data.draw(st.sampled_from(sorted(self.living)))]
        after = msgspec.structs.replace(before, revision=before.revision + 1, state=state, ts_ms=T0 + self.now)
        self.living[after.id] = after
        if state == "close":
            del self.living[after.id]
        self.say(after)

    @rule(data=st.data())
    def repeats(self, data: st.DataObject) -> None:
        if self.history:
            old = data.draw(st.sampled_from(self.history))
            assert self.book.apply(old) == []

    @rule(ms=st.sampled_from([500, 5_000, 31_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.told(self.book.advance(T0 + self.now))

    @rule()
    def restarts(self) -> None:
        state = self.book.state()
        self.book = IncidentBook("c")
        self.book.restore(state)
        assert self.book.state() == state

    def say(self, said: Finding) -> None:
        self.history.append(said)
        self.told(self.book.apply(said))

    @invariant()
    def every_open_finding_is_in_one_open_incident(self) -> None:
        homes = [f for incident in self.book.open() for f in incident.findings]
        assert len(homes) == len(set(homes))
        assert set(self.living) <= set(homes)

    @invariant()
    def open_incidents_are_the_unresolved_ones(self) -> None:
        assert {i.id for i in self.book.open()} == {
            id_ for id_, incident in self.revisions.items() if incident.change != "resolve"
        }

    def teardown(self) -> None:
        for said in list(self.living.values()):
            self.say(msgspec.structs.replace(said, revision=said.revision + 1, state="close", ts_ms=T0 + self.now))
        self.living.clear()
        self.now += RECOVER_MS
        self.told(self.book.advance(T0 + self.now))
        assert self.book.open() == ()
        assert all(i.change == "resolve" for i in self.revisions.values())


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_a_sure_rank_is_not_hidden_by_a_vague_word_on_its_node() -> None:
    rank = Subject(scope="rank", job="j", rank=5, node="n", gpu="GPU-5")
    node = Subject(scope="node", job="j", node="n")
    common = {"cluster": "c", "ts_ms": 60_000, "detector": "job", "kind": "straggler", "onset_ms": 50_000}
    sure = Finding(**common, id="f-1", revision=0, state="open", cause="gpu_degraded", subject=rank, confidence=0.82)
    vague = Finding(**common, id="f-2", revision=0, state="open", cause="host_cpu", subject=node, confidence=0.49)
    book = IncidentBook("c")
    book.apply(sure)
    (incident,) = book.apply(vague)
    assert (incident.scope, incident.cause, incident.culprits) == ("rank", "gpu_degraded", (rank,))
    steady = msgspec.structs.replace(vague, id="f-3", confidence=0.8)
    (incident,) = book.apply(steady)
    assert (incident.scope, incident.culprits) == ("node", (node,))


def test_the_last_word_of_a_verdict_does_not_blur_what_was_known() -> None:
    book = IncidentBook("c")
    clear = {"cause": "gpu_degraded", "confidence": 0.9, "summary": "rank 6 holds up 15 ranks"}
    book.apply(finding(**clear))
    faded = {"cause": "unknown", "confidence": 0.4, "summary": "hardly anything"}
    assert book.apply(finding(at=5_000, revision=1, state="change", **faded)) == []
    (incident,) = book.apply(finding(at=9_000, revision=2, state="close", **faded))
    assert (incident.state, incident.cause, incident.confidence) == ("recovering", "gpu_degraded", 0.9)
    assert "rank 6 holds up" in incident.summary


def test_what_the_driver_asks_for_comes_before_the_catalogue_and_what_is_always_right() -> None:
    table = Evidence(text="XID 149 asks to reset the GPU", metric="action")
    driver = Evidence(text="The driver asks to reboot the machine", metric="action")
    link = finding("f1", GPU, kind="hardware", cause="nvlink_fault", evidence=(table,))
    recovery = finding("f2", GPU, kind="hardware", cause="unknown", evidence=(driver,))
    usual = action("nvlink_fault", "hardware")
    assert usual
    assert action("nvlink_fault", "hardware", [link]) == f"XID 149 asks to reset the GPU. {usual}"
    assert action("nvlink_fault", "hardware", [recovery, link]) == f"The driver asks to reboot the machine. {usual}"
    note = Evidence(text="The driver asks to drain the GPU, then reset it (XID 154 on n1: ...)", metric="action")
    assert action("nvlink_fault", "hardware", [link], [note]).startswith(
        "The driver asks to drain the GPU, then reset it."
    )


def test_slow_transfers_are_blamed_on_the_ill_port_of_a_node_of_the_job() -> None:
    place = Inventory(
        cluster="c", node="n3", ts_ms=T0, run_id=1, seq=0, memberships=(JobMembership(job="j", rank=12, gpu="GPU-12"),)
    )
    group = Subject(scope="group", job="j", group="DATA")
    slow = finding("f-slow", group, kind="slow_link", cause="fabric_link", confidence=0.6)
    here = Subject(scope="link", node="n3", link="mlx5_0/1")
    port = finding("f-port", here, kind="hardware", cause="fabric_link", confidence=0.8)
    elsewhere = finding("f-else", msgspec.structs.replace(here, node="n9"), kind="hardware", cause="fabric_link")
    for order in ((place, slow, port, elsewhere), (place, port, elsewhere, slow)):
        b, _ = book(*order)
        joined, other = sorted(b.open(), key=lambda i: -len(i.findings))
        assert (joined.kind, joined.scope, joined.culprits) == ("slow_link", "link", (port.subject,))
        assert other.culprits == (elsewhere.subject,)
