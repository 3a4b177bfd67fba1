"""docs/sql.md is true: every example is asked again, on the same small fleet."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_rows import store
from sample_history import history
from sql_page import example, fill, page

from runtime.errors import UserError
from runtime.settings import ClickHouse
from schemas import Incident, NodeFrame
from schemas.causes import CAUSES
from storage import ddl
from storage.ask import FIRST_WORD_S, answer, progress, read_whole, whole_scans
from storage.client import get_client
from storage.migrate import migrate
from storage.questions import QUESTIONS, arguments
from storage.roll import Roller
from storage.rollups import BUS_FACTOR, ROLLUPS
from storage.views import VIEWS

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
NOON = 1_793_534_400_000


@pytest.fixture(scope="module")
def sample(clickhouse: ClickHouse) -> Iterator[Client]:
    with contextlib.closing(get_client(clickhouse, database=False)) as client:
        migrate(client, "sample")
    with contextlib.closing(get_client(msgspec.structs.replace(clickhouse, clickhouse_database="sample"))) as client:
        fill(client)
        yield client
        client.command("DROP DATABASE sample SYNC")


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_example_of_each_question_has_the_answer_that_the_page_shows(sample: Client, name: str) -> None:
    assert example(sample, name) in PAGE, "run `make sql`"


def test_the_page_is_whole(sample: Client) -> None:
    assert page(sample) == PAGE, "run `make sql`"


def test_every_view_is_read_by_a_question() -> None:
    text = "".join(one.sql for one in QUESTIONS.values()) + "".join(VIEWS.values())
    assert [name for name in VIEWS if name not in text] == []


def test_hardware_causes_and_bus_factors_in_sql_are_those_of_the_code() -> None:
    hardware = ", ".join(f"'{cause}'" for cause, facts in CAUSES.items() if facts.team == "hardware")
    assert all(f"cause IN ({hardware})" in QUESTIONS[name].sql for name in ("mtbf", "gpus-by-risk"))
    assert BUS_FACTOR in VIEWS["v_group_bandwidth"]


def test_questions_change_nothing_and_take_nothing_twice(sample: Client) -> None:
    with pytest.raises(UserError, match="readonly"):
        list(answer(sample, lambda: sample, "TRUNCATE TABLE steps", "CSV", {}))
    before = list(answer(sample, lambda: sample, QUESTIONS["time-lost"].sql, "CSV", {"job": ""}))
    store(sample, *(record for record in history() if isinstance(record, Incident | NodeFrame)))
    Roller(sample, {"gpu_1m": ROLLUPS["gpu_1m"]}).roll_all()
    assert list(answer(sample, lambda: sample, QUESTIONS["time-lost"].sql, "CSV", {"job": ""})) == before


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("nothing", {}, "no question 'nothing': choose one of fleet-now, worst-gpus"),
        ("worst-gpus", {}, "question worst-gpus needs --param job=VALUE: key of the job"),
        ("worst-gpus", {"job": "j", "x": "1"}, "question worst-gpus takes no parameter 'x': it takes job, limit"),
        ("worst-gpus", {"job": "j", "limit": "many"}, "--param limit='many': give a whole number"),
        ("worst-gpus", {"job": "j", "limit": "-1"}, "--param limit='-1': give a whole number"),
    ],
)
def test_wrong_parameters_are_one_line(name: str, given: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        arguments(name, given, NOON)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_defaults_are_filled_in_and_now_is_the_clocks() -> None:
    assert arguments("mtbf", {}, NOON) == {"days": "30", "at": "2026-11-01 12:00:00"}
    assert arguments("mtbf", {"days": "2"}, NOON)["days"] == "2"


def test_text_in_a_parameter_is_only_text(sample: Client) -> None:
    evil = arguments("worst-gpus", {"job": "x' OR 1=1 --"}, NOON)
    assert list(answer(sample, lambda: sample, QUESTIONS["worst-gpus"].sql, "CSV", evil)) == []


def test_a_question_over_everything_is_hinted_at_and_one_of_a_node_is_not(sample: Client) -> None:
    sample.command("CREATE OR REPLACE TABLE large (node String, n UInt64) ENGINE = MergeTree ORDER BY (node, n)")
    sample.command("INSERT INTO large SELECT toString(intDiv(number, 20000)), number FROM numbers(200000)")
    (hint,) = whole_scans(sample, "SELECT sum(n) FROM large;", {}, large_rows=100_000)
    assert hint == "this reads all of sample.large, about 0 million rows: name node, n, or a day of ts"
    assert whole_scans(sample, "SELECT sum(n) FROM large WHERE node = {node:String}", {"node": "3"}, 100_000) == []
    assert whole_scans(sample, "SELECT sum(n) FROM large", {}) == []
    assert whole_scans(sample, "SELECT nonsense FROM large", {}) == []
    assert whole_scans(sample, "SHOW TABLES", {}) == []
    sample.command("DROP TABLE large")


def test_the_plan_of_several_tables_is_told_apart() -> None:
    plan = [
        "  ReadFromMergeTree (db.a)", "  Indexes:", "    PrimaryKey", "      Granules: 2000/2000",
        "  ReadFromMergeTree (db.b)", "    Partition", "      Granules: 3000/4000", "    PrimaryKey",
        "      Granules: 10/3000",
    ]  # fmt: skip
    assert read_whole(plan) == {"db.a": 2000 * 8192}


def test_a_long_question_tells_its_progress(sample: Client, clickhouse: ClickHouse) -> None:
    said: list[str] = []
    sql = "SELECT count() FROM numbers(20000000000) WHERE sipHash64(number) = 1 SETTINGS max_execution_time = 6"
    with pytest.raises(UserError):
        list(answer(sample, lambda: get_client(clickhouse), sql, "CSV", {}, said.append))
    assert said
    assert all("million rows" in line for line in said)
    assert FIRST_WORD_S < 6


def test_progress_without_a_known_end_names_none() -> None:
    assert progress(3.0, 5_000_000, 0, 1 << 20) == "3 s: 5.0 million rows, 1 MiB"


def test_views_say_what_they_are() -> None:
    assert all(ddl.create_view(name).startswith(f"CREATE OR REPLACE VIEW {name} AS\nSELECT") for name in VIEWS)
