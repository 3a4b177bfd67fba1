"""Properties of codec, matrix, sampling, ids and job key over generated values."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import NodeFrame
from schemas.codec import WireError, decode, encode
from schemas.collective import Communicator
from schemas.finding import Subject
from schemas.identity import digest, episode_id, incident_id
from schemas.jobkey import job_key
from schemas.matrix import Matrix
from schemas.metrics import METRICS, SECTIONS, metric, names
from schemas.sampling import level, sampled, sampler

names_list = st.lists(st.text(min_size=1, max_size=8), min_size=0, max_size=5, unique=True)


@given(names_list, names_list, st.data())
def test_matrix_round_trip(rows: list[str], columns: list[str], data: st.DataObject) -> None:
    size = len(rows) * len(columns)
    numbers = data.draw(st.lists(st.floats(width=32), min_size=size, max_size=size))
    matrix = Matrix.of(rows, columns, np.array(numbers, dtype=np.float32).reshape(len(rows), len(columns)))
    frame = NodeFrame(cluster="c", ts_ms=0, node="n", run_id=0, seq=0, sections={"gpu": matrix})
    back = decode(encode(frame))
    assert isinstance(back, NodeFrame)
    np.testing.assert_array_equal(back.sections["gpu"].values(), matrix.values())
    for j, name in enumerate(columns):
        np.testing.assert_array_equal(matrix.column(name), matrix.values()[:, j])
    assert np.isnan(matrix.select(["no such column"])).all()


def test_matrix_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="1 rows of values for 2 names"):
        Matrix.of(["a", "b"], ["x"], [[1.0]])
    with pytest.raises(ValueError, match="columns repeat"):
        Matrix.of(["a"], ["x", "x"], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="rows repeat"):
        Matrix.of(["a", "a"], ["x"], [[1.0], [2.0]])
    for name in ("", "x" * 257):
        with pytest.raises(ValueError, match="no name, or one of more than 256 letters"):
            Matrix.of([name], ["a"], [[1.0]])


@given(st.binary(max_size=200))
def test_no_bytes_make_decode_raise_anything_else(payload: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(payload)


@given(st.integers(0, 2**40), st.integers(0, 12))
def test_sampling_levels_nest(sn: int, j: int) -> None:
    if sampled("0xabc", "AllReduce", sn, j + 1):
        assert sampled("0xabc", "AllReduce", sn, j)
    assert sampled("0xabc", "AllReduce", sn, 0)
    assert 0 <= level("0xabc", "AllReduce", sn) <= 64


@given(st.integers(0, 2**62), st.integers(0, 70), st.text(max_size=4))
def test_a_sampler_keeps_what_is_sampled(sn: int, j: int, communicator: str) -> None:
    assert sampler(communicator, "AllGather", j)(sn) == sampled(communicator, "AllGather", sn, j)


def test_sampling_keeps_about_one_in_two_to_the_j_without_a_beat() -> None:
    kept = np.array([sampled("0xabc", "AllReduce", sn, 3) for sn in range(8000)])
    assert abs(kept.mean() - 1 / 8) < 0.02
    # A step of 6 operations must be seen at each of its six places.
    for place in range(6):
        assert abs(kept[place::6].mean() - 1 / 8) < 0.04


@given(st.lists(st.one_of(st.none(), st.integers(), st.text(alphabet="ab"))), st.text(alphabet="ab", min_size=1))
def test_ids_are_stable_and_keep_boundaries(parts: list[str | int | None], extra: str) -> None:
    assert digest(*parts) == digest(*parts)
    assert digest(*parts, extra) != digest(*parts)


def test_episode_ids_depend_on_subject_kind_and_start() -> None:
    subject = Subject(scope="rank", job="j", rank=5)
    one = episode_id("job", "straggler", subject, 1000)
    assert one == episode_id("job", "straggler", Subject(scope="rank", job="j", rank=5), 1000)
    others = {
        episode_id("job", "straggler", subject, 2000),
        episode_id("job", "hang", subject, 1000),
        episode_id("job", "straggler", Subject(scope="rank", job="j", rank=6), 1000),
        episode_id("job", "straggler", Subject(scope="node", node="j"), 1000),
    }
    assert len(others | {one}) == 5
    assert incident_id("a", one) != incident_id("b", one)


@pytest.mark.parametrize(
    ("environment", "pod", "expected"),
    [
        ({"SLURM_JOB_ID": "71"}, "", "slurm:lab/71/0"),
        ({"SLURM_JOB_ID": "71", "SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RUN_ID": "x"}, "pod", "slurm:lab/71/1"),
        ({"TORCHELASTIC_RUN_ID": "x"}, "pod", "k8s:pod"),
        ({"TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "h", "MASTER_PORT": "1"}, "", "torchelastic:x"),
        ({"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "h", "MASTER_PORT": "1"}, "", "master:h:1"),
        ({"MASTER_ADDR": "h"}, "", None),
        ({}, "", None),
    ],
)
def test_job_key_takes_the_first_that_tells(environment: dict[str, str], pod: str, expected: str | None) -> None:
    assert job_key(environment, pod, cluster="lab") == expected


def test_job_key_falls_back_to_the_widest_communicator_only() -> None:
    narrow = Communicator(id="0x1", size=8, rank=0, comm_rank=0)
    wide = Communicator(id="0x2", size=512, rank=0, comm_rank=0)
    assert job_key({}, communicators=(narrow, wide)) == job_key({}, communicators=(wide,))
    assert job_key({}, communicators=(narrow,)) != job_key({}, communicators=(wide,))


def test_the_catalogue_declares_each_metric_once() -> None:
    assert len({(m.section, m.name) for m in METRICS}) == len(METRICS)
    assert all(m.low < m.high for m in METRICS)
    assert sum(len(group) for group in SECTIONS.values()) == len(METRICS)
    assert "power_w" in names("gpu")
    assert metric("gpu", "power_w") is not None
    assert metric("gpu", "no_such") is None
