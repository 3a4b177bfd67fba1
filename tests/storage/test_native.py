"""Columns in ClickHouse's own format: what the engine reads is what was packed."""

import math
from typing import Any

import numpy as np
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_rows import rows

from schemas import NodeFrame
from schemas.matrix import Matrix
from schemas.record import Natural, TimeMs
from storage.columns import columns
from storage.insert import put
from storage.native import block, compressed, words
from storage.tables import TABLES
from storage.values import Stored, stored

CASES: list[tuple[Stored, list[Any]]] = [
    (stored(str, "node"), ["a", "", "a", "ä"]),
    (stored(str, "node"), [f"word {n}" for n in range(256)]),
    (stored(str, "node"), [f"word {n}" for n in range(257)]),
    (stored(str, "node"), [f"word {n % 65_537}" for n in range(70_000)]),
    (stored(str, "text"), ["", "x" * 127, "x" * 128, "x" * 20_000, "a\x00b"]),
    (stored(Natural, "count"), [0, 2**64 - 1]),
    (stored(int, "code"), [-(2**63), 2**63 - 1]),
    (stored(Natural | None, "rank"), [None, 5, 0, None]),
    (stored(bool, "ended"), [True, False]),
    (stored(float, "work"), [1.5, -math.inf]),
    (stored(tuple[str, ...], "causes"), [(), ("a", "b"), ("a",), ()]),
    (stored(tuple[str, ...], "causes"), [(), ()]),
    (stored(tuple[float, ...], "values"), [(1.0,), (), (2.0, 3.0)]),
    (stored(dict[str, float], "z"), [{}, {"x": 1.0, "y": 2.0}, {"x": 3.0}]),
    (stored(dict[str, str], "detail"), [{"k": "v"}, {}]),
]


def told(client: Client, kind: Stored, packed: Any) -> list[Any]:
    """The column as the engine reads it."""
    client.command("DROP TABLE IF EXISTS native_case")
    client.command(f"CREATE TABLE native_case (n UInt64, v {kind.type}) ENGINE = MergeTree ORDER BY n")
    numbers = stored(Natural, "n").pack(list(range(len(packed))))
    made = block(["n", "v"], ["UInt64", kind.type], [numbers, packed], len(packed))
    client.raw_insert("", insert_block=compressed(b"INSERT INTO native_case FORMAT Native\n" + made), compression="lz4")
    rows = client.query("SELECT v FROM native_case ORDER BY n").result_rows
    client.command("DROP TABLE native_case SYNC")
    return [value for (value,) in rows]


@pytest.mark.parametrize(("kind", "given"), CASES, ids=lambda case: getattr(case, "type", None))
def test_the_engine_reads_what_was_packed(database: Client, kind: Stored, given: list[Any]) -> None:
    packed = kind.pack(given)
    expected = [list(value) if isinstance(value, tuple) else value for value in given]
    assert packed.tolist() == expected
    assert told(database, kind, packed) == expected


@pytest.mark.parametrize(("kind", "given"), CASES, ids=lambda case: getattr(case, "type", None))
def test_rows_may_take_any_of_the_values_any_number_of_times(database: Client, kind: Stored, given: list[Any]) -> None:
    which = np.array([len(given) - 1, 0, 0, len(given) - 1, len(given) // 2], np.int64)
    expected = [list(given[n]) if isinstance(given[n], tuple) else given[n] for n in which]
    packed = kind.pack(given).take(which)
    assert packed.tolist() == expected
    assert told(database, kind, packed) == expected


@pytest.mark.parametrize(
    ("annotation", "value"), [(Natural, -1), (Natural, 2**64), (int, 2**63), (TimeMs, None), (Natural, 1.5)]
)
def test_what_a_type_cannot_hold_is_an_error_and_no_other_number(annotation: Any, value: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        stored(annotation, "x").pack([value])


def test_words_are_numbered_as_they_come() -> None:
    assert words(["b", "a", "b"]).keys == ["b", "a"]


def test_the_same_row_twice_in_one_insert_is_one_row_for_readers(database: Client) -> None:
    frame = NodeFrame(
        cluster="native", ts_ms=1, node="n", run_id=1, seq=1, sections={"gpu": Matrix.of(["G"], ["power_w"], [[7]])}
    )
    put(database, TABLES["gpu_samples"], columns(TABLES["gpu_samples"], [frame, frame, frame]))
    assert [row["power_w"] for row in rows(database, "gpu_samples", "native")] == [7.0]
