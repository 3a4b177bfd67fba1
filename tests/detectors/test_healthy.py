"""What is left out of a training for incidents, and what is not."""

from importlib.resources import files

import numpy as np
import pytest
from node_frames import COLUMN, T0, node_frames

from detectors.forest.model import Forest, ModelError, Training
from detectors.train.healthy import Trouble, Troubles, trouble_of
from detectors.train.training import Past
from schemas import Incident
from schemas.finding import Subject


def incident(culprits: tuple[Subject, ...] = (), resolved_ms: int | None = 20_000, **said: object) -> Incident:
    return Incident(
        cluster="c", ts_ms=9000, id="i", revision=1, change="update", state="confirmed", kind="straggler", scope="gpu",
        cause="unknown", confidence=1, onset_ms=8000, detected_ms=9000, resolved_ms=resolved_ms, culprits=culprits,
        **said,
    )  # fmt: skip


def healthy(troubles: Troubles, ts_ms: int, node: str = "n1", rack: str = "r1", jobs: tuple[str, ...] = ("",)) -> bool:
    return bool(troubles.healthy(ts_ms, node, rack, jobs).all())


def test_the_whole_node_of_a_culprit_is_left_out_with_a_margin() -> None:
    gpu = Subject(scope="gpu", node="n1", gpu="GPU-1", rack="r1")
    troubles = Troubles([trouble_of(incident((gpu,)), 0, margin_ms=5000)])
    assert [healthy(troubles, ms) for ms in (2999, 3000, 24_999, 25_000)] == [True, False, False, True]
    assert healthy(troubles, 9000, node="n2"), "its rack had no part in it"


def test_an_open_one_lasts_and_one_that_names_nobody_is_everybodys() -> None:
    troubles = Troubles([trouble_of(incident(resolved_ms=None), until_ms=90_000, margin_ms=1000)])
    assert not healthy(troubles, 90_999, node="any")
    assert healthy(troubles, 91_000, node="any")


@pytest.mark.parametrize(
    ("told", "left_out"),
    [
        (incident((Subject(scope="rack", rack="r1"),)), [True, True, True]),
        (incident(job="j1"), [True, False, False]),
        (incident((Subject(scope="rank", job="j2", rank=3, node="n9"),)), [False, True, False]),
        (incident(members=("n1 (4 GPUs)",)), [True, True, True]),
        (incident((Subject(scope="node", node="n9"),)), [False, False, False]),
    ],
)
def test_who_is_left_out(told: Incident, left_out: list[bool]) -> None:
    found = Troubles([trouble_of(told, 0)]).healthy(9000, "n1", "r1", ("j1", "j2", ""))
    assert (~found).tolist() == left_out


def test_overlapping_troubles_are_each_of_their_time() -> None:
    nobody: frozenset[str] = frozenset()
    troubles = Troubles(
        [Trouble(0, 10, frozenset({"n1"}), nobody, nobody), Trouble(5, 20, nobody, nobody, frozenset({"j"}))]
    )
    found = [troubles.healthy(ms, "n1", "", ("j", "k")).tolist() for ms in (0, 5, 10, 20)]
    assert found == [[False, False], [False, False], [False, True], [True, True]]


def test_what_is_kept_is_drawn_evenly_and_a_trial_goes_on_where_the_past_ended() -> None:
    own = Forest.from_bytes(files("detectors").joinpath("fleet.forest").read_bytes())
    whole, part = (Past(own, Troubles(), np.random.default_rng(1), share) for share in (1.0, 0.25))
    for frame in node_frames(range(400)):
        whole.take(frame)
        part.take(frame)
        part.take(frame)  # a repeat is passed over
    assert whole.kept == whole.healthy == part.healthy
    assert 0.2 * whole.kept < part.kept < 0.3 * whole.kept
    assert whole.ticks == whole.kept + whole.not_judged == 1600

    def slow(values: np.ndarray, second: int) -> None:
        if second >= 420:
            values[2, COLUMN["sm_clock_mhz"]] = 1400

    trial = whole.trial(own)
    for frame in node_frames(range(400, 440), change=slow):
        trial.take(frame)
    assert trial.judged == 160
    assert [(alarm.node, alarm.gpu, alarm.ts_ms // 10_000) for alarm in trial.alarms] == [
        ("n1", "GPU-2", (T0 + 420_000) // 10_000)
    ]
    assert trial.shares[0.1] >= trial.shares[0.001] > 0
    with pytest.raises(ModelError, match="healthy rows; at least 10000"):
        part.train(Training(source="too little"), "x")
