"""The lines against the format that NVIDIA's own writer produces (reference: v4.0, NCCL 2.30.7)."""

import json
from pathlib import Path

import numpy as np
import pytest
from watched_fleet import START_MS, small

from simulator.fleet import SimulatedFleet
from simulator.inspector import sequence_number
from simulator.job import FIRST_STEP

KEYS = {
    "header": ["id", "comm_name", "rank", "n_ranks", "nnodes"],
    "metadata": [
        "inspector_output_format_version", "git_rev", "rec_mechanism", "dump_timestamp_us", "hostname", "pid",
    ],
    "coll_perf": [
        "coll", "coll_sn", "coll_msg_size_bytes", "coll_exec_time_us", "coll_timing_source", "coll_algobw_gbs",
        "coll_busbw_gbs",
    ],
}  # fmt: skip

REAL = Path(__file__).parents[2] / ".." / "shared/data/nccl/inspector/scenario_healthy/node-01-pid28970.log"


def lines(ticks: int = 3) -> list[tuple[str, bytes]]:
    fleet = SimulatedFleet(small(), start_ms=START_MS)
    for _ in range(ticks):
        fleet.advance()
    return [line for node in fleet.nodes for line in node.inspector.read()]


def test_every_line_is_json_with_exactly_nvidias_keys_in_order() -> None:
    for _, line in lines():
        said = json.loads(line)
        assert list(said) == list(KEYS)
        assert {part: list(said[part]) for part in said} == KEYS


def test_a_line_differs_from_a_real_one_in_values_only() -> None:
    if not REAL.exists():
        pytest.skip("no recorded Inspector files beside the project")
    real = json.loads(REAL.read_text().splitlines()[0])
    ours = json.loads(lines()[0][1])
    assert {part: list(real[part]) for part in real} == KEYS
    for part in KEYS:
        assert {k: type(v) for k, v in real[part].items()} == {k: type(v) for k, v in ours[part].items()}
    for same in ("inspector_output_format_version", "git_rev", "rec_mechanism"):
        assert real["metadata"][same] == ours["metadata"][same]


def test_one_file_a_process_holds_all_its_communicators() -> None:
    by_file: dict[str, set[str]] = {}
    for name, line in lines():
        said = json.loads(line)
        assert name == f"{said['metadata']['hostname']}-pid{said['metadata']['pid']}.log"
        by_file.setdefault(name, set()).add(said["header"]["comm_name"])
    assert len(by_file) == 16
    assert all(
        names == {"TENSOR_MODEL_PARALLEL_GROUP", "DATA_PARALLEL_GROUP", "default_pg"} for names in by_file.values()
    )


def test_bandwidths_follow_from_size_and_time_as_the_plugin_counts() -> None:
    for _, line in lines():
        said = json.loads(line)
        n, perf = said["header"]["n_ranks"], said["coll_perf"]
        pieces, factor = (1, 2 * (n - 1) / n) if perf["coll"] == "AllReduce" else (n, (n - 1) / n)
        algobw = perf["coll_msg_size_bytes"] * pieces / perf["coll_exec_time_us"] / 1e3
        assert np.isclose(perf["coll_algobw_gbs"], algobw, rtol=1e-4, atol=1e-6)
        assert np.isclose(perf["coll_busbw_gbs"], algobw * factor, rtol=1e-4, atol=1e-6)


def test_sequence_numbers_count_per_communicator_and_function_without_gaps() -> None:
    assert [sequence_number(FIRST_STEP, i) for i in range(6)] == [3, 4, 5, 1, 1, 1]
    assert [sequence_number(FIRST_STEP + 1, i) for i in range(6)] == [6, 7, 8, 2, 2, 2]
    seen: dict[tuple[str, str, str], list[int]] = {}
    for name, line in lines(6):
        said = json.loads(line)
        key = (name, said["header"]["id"], said["coll_perf"]["coll"])
        seen.setdefault(key, []).append(said["coll_perf"]["coll_sn"])
    for numbers in seen.values():
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_dump_never_comes_from_the_future() -> None:
    fleet = SimulatedFleet(small(), start_ms=START_MS)
    for _ in range(4):
        tick_ms = fleet.advance()
        for node in fleet.nodes:
            for _, line in node.inspector.read():
                stamp_us = json.loads(line)["metadata"]["dump_timestamp_us"]
                assert (tick_ms - 1000) * 1000 < stamp_us <= tick_ms * 1000
