"""Who is not paged (yet), and why."""

import pytest
from msgspec.structs import replace

from alerts.manners import (
    FLAPS,
    GATHER_MS,
    STEADY_MS,
    Situation,
    escalates,
    flapping,
    gather,
    inhibited,
    least,
    level,
    team,
)
from alerts.outbox import Outbox
from alerts.receiver import Answer, Outcome
from alerts.silences import Silences, covers
from schemas import Incident, Silence
from schemas.examples import EXAMPLES
from schemas.finding import Subject

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
SILENCE = next(e for e in EXAMPLES if isinstance(e, Silence))
RISK = replace(INCIDENT, severity="warning", kind="hardware", slowdown=None, victims=0)
AT = INCIDENT.ts_ms


def now(ms: int = AT, **more: object) -> Situation:
    return Situation(opened=False, now_ms=ms)._replace(**more)  # type: ignore[arg-type]


def on(*nodes: str, **more: object) -> Incident:
    return replace(RISK, culprits=tuple(Subject(scope="node", node=node) for node in nodes), **more)


RACK = replace(
    RISK, id="i-rack", kind="cooling", cause="coolant_flow", scope="rack", culprits=(Subject(scope="rack", rack="r01"),)
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"severity": "critical"}, "critical"),
        ({"severity": "warning", "slowdown": 1.1, "victims": 511}, "error"),
        ({"severity": "warning", "slowdown": 1.02, "victims": 511}, "warning"),
        ({"severity": "warning", "slowdown": None}, "warning"),
        ({"severity": "info", "slowdown": 1.5}, "info"),
    ],
)
def test_severity_follows_the_impact(changes: dict[str, object], expected: str) -> None:
    assert level(replace(INCIDENT, **changes)) == expected


def test_whose_it_is_follows_the_cause() -> None:
    assert [team(replace(INCIDENT, cause=c)) for c in ("leak", "fabric_link", "work_imbalance", "gpu_lost")] == [
        "facilities",
        "network",
        "job owner",
        "hardware",
    ]


def test_an_open_cooling_page_explains_the_heat_of_its_rack_only() -> None:
    hot = on("r01-t02", id="i-hot", cause="thermal_throttle")
    assert inhibited(hot, now(open=[RACK])) == "explained by i-rack (coolant_flow)"
    assert inhibited(on("r02-t02", cause="thermal_throttle"), now(open=[RACK])) == ""
    assert inhibited(on("r01-t02", cause="gpu_memory_error"), now(open=[RACK])) == ""
    assert inhibited(replace(hot, kind="hang"), now(open=[RACK])) == ""
    assert inhibited(hot, now(open=[replace(RACK, cluster="another")])) == "", "racks of two clusters have one name"
    assert inhibited(hot, now(open=[RACK], opened=True)) == "", "what is paged is not taken back"


def test_a_partition_that_is_silent_explains_its_nodes_and_one_agent_that_loses_records_explains_nothing() -> None:
    silent = on(id="i-pipe", cause="pipeline", scope="cluster")
    assert inhibited(on("n1", cause="node_lost"), now(open=[silent])) != ""
    agent = on("n2", id="i-agent", cause="pipeline", scope="node")
    assert [inhibited(on(node, cause="node_lost"), now(open=[agent])) for node in ("n1", "n2")] == ["", ""]


def test_a_lost_node_explains_what_is_on_it_and_a_hang_what_is_slow_in_its_job() -> None:
    lost = on("n1", id="i-lost", cause="node_lost")
    assert inhibited(on("n1", cause="fabric_link"), now(open=[lost])) != ""
    assert inhibited(on("n1", "n2", cause="fabric_link"), now(open=[lost])) == ""
    hang = replace(INCIDENT, id="i-hang", kind="hang")
    assert inhibited(replace(INCIDENT, id="i-2"), now(open=[hang])) != ""
    assert inhibited(replace(INCIDENT, id="i-2", job="another"), now(open=[hang])) == ""


def test_heat_waits_for_its_rack_for_half_a_minute_unless_it_is_critical() -> None:
    hot = on("r01-t02", cause="thermal_throttle", detected_ms=AT)
    assert gather(hot, now(AT + GATHER_MS - 1)) != ""
    assert gather(hot, now(AT + GATHER_MS)) == ""
    assert gather(replace(hot, severity="critical"), now(AT)) == ""
    assert gather(RACK, now(AT)) == ""


def test_what_flaps_is_paged_three_times_and_then_only_when_it_lasts() -> None:
    flap = on("n1", cause="fabric_link", detected_ms=AT)
    assert flapping(flap, now(earlier=FLAPS - 1)) == ""
    assert "paged 3 times within an hour" in flapping(flap, now(earlier=FLAPS))
    assert flapping(flap, now(AT + STEADY_MS, earlier=FLAPS)) == ""
    assert flapping(replace(flap, severity="critical"), now(earlier=FLAPS)) == ""


def test_flaps_are_counted_over_restarts_and_never_lose_one_that_stays() -> None:
    stored = {}
    triggers = []

    def life(number: int, ends: bool = True) -> None:
        start = AT + 300_000 * number
        flap = on("n1", id=f"i-{number}", cause="fabric_link", ts_ms=start, detected_ms=start)
        box = Outbox("pagerduty", lambda incident, action: b"{}", holds=(flapping,))
        box.restore(stored.values())
        told = [flap]
        if ends:
            told.append(replace(flap, revision=1, change="resolve", state="resolved", ts_ms=start + 60_000))
        for news in told:
            for record in filter(None, [box.offer(news)]):
                stored[record.incident] = record
            for later_ms in (0, 30_000) if ends else (0, 300_000, STEADY_MS):
                while (state := box.next(later_ms / 1000, news.ts_ms + later_ms)) is not None:
                    triggers.extend([state.incident] * (state.action == "trigger"))
                    for record in box.settle(state.incident, Answer(Outcome.DELIVERED, ""), later_ms / 1000):
                        stored[record.incident] = record

    for number in range(6):
        life(number)
    assert triggers == ["i-0", "i-1", "i-2"]
    life(6, ends=False)
    assert triggers == ["i-0", "i-1", "i-2", "i-6"], "it lasted ten minutes"


def test_nothing_below_the_least_level_is_sent() -> None:
    assert least("error")(RISK, now()) == "below error"
    assert least("warning")(RISK, now()) == ""


def test_growth_that_must_not_wait() -> None:
    assert escalates(RISK, replace(RISK, severity="critical"))
    assert escalates(RISK, replace(RISK, cause="leak"))
    assert escalates(replace(RISK, victims=4), replace(RISK, victims=32))
    assert not escalates(replace(RISK, victims=4), replace(RISK, victims=31))
    assert not escalates(replace(RISK, severity="critical"), RISK)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rack": "r01"}, True),
        ({"rack": "r0*"}, True),
        ({"rack": "r02"}, False),
        ({"node": "r01-t02"}, True),
        ({"node": "r01-*"}, True),
        ({"node": "r01-t0"}, False),
        ({"job": "slurm:eos/71/0"}, True),
        ({"job": "slurm:eos/72*"}, False),
        ({"cause": "gpu_degraded"}, True),
        ({"cause": "leak"}, False),
        ({"rack": "r01", "cause": "leak"}, False),
        ({}, True),
    ],
)
def test_what_a_silence_covers(given: dict[str, object], expected: bool) -> None:
    silence = replace(SILENCE, **({"rack": "", "node": "", "job": "", "cause": None} | given))
    assert covers(silence, INCIDENT) is expected


def test_a_fault_that_reaches_beyond_the_silence_is_paged() -> None:
    silence = replace(SILENCE, rack="r01", cause=None)
    assert covers(silence, on("r01-t01", "r01-t02"))
    assert not covers(silence, on("r01-t01", "r02-t02"))
    assert not covers(silence, on()), "nobody knows where it is"


def test_a_silence_holds_in_its_time_and_until_it_is_ended() -> None:
    silences = Silences([replace(SILENCE, rack="r01", cause=None)])
    hot = on("r01-t02")
    assert silences(hot, now(SILENCE.from_ms - 1)) == ""
    assert silences(hot, now(SILENCE.from_ms)).startswith("silenced by mira until 2023-11-15 00:13 UTC: pump replaced")
    assert silences(hot, now(SILENCE.until_ms)) == ""
    silences.put(replace(SILENCE, ended=True))
    assert silences(hot, now(SILENCE.from_ms)) == ""
    silences.put(replace(SILENCE, id="s-2", cluster="another", rack="", cause=None))
    assert silences(hot, now(SILENCE.from_ms)) == "", "another cluster's"
