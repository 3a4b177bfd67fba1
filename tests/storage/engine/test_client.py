"""clickhouse-connect, unchanged, against the embedded engine."""

import gzip
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError

from runtime.settings import ClickHouse
from storage.engine.lanes import READERS

LONG = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"


def connect(settings: ClickHouse, **options: object) -> Client:
    return clickhouse_connect.get_client(
        host=settings.clickhouse_host,
        port=settings.clickhouse_port,
        database=options.pop("database", "default"),
        **options,
    )


@pytest.fixture(scope="module")
def database(embedded_clickhouse: ClickHouse) -> Iterator[str]:
    name = f"client_{uuid.uuid4().hex[:8]}"
    with connect(embedded_clickhouse) as client:
        client.command(f"CREATE DATABASE {name}")
        yield name
        client.command(f"DROP DATABASE {name}")


@pytest.fixture
def client(embedded_clickhouse: ClickHouse, database: str) -> Iterator[Client]:
    with connect(embedded_clickhouse, database=database) as client:
        yield client


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not come to be"
        time.sleep(0.02)


def test_it_says_what_it_is(client: Client) -> None:
    assert client.ping()
    assert int(client.server_version.split(".")[0]) >= 26


def test_query_with_parameters(client: Client) -> None:
    said = "it's a \\ and a\ttab\nand 'quotes' \x00 €"
    result = client.query(
        "SELECT {number:UInt32} AS n, {text:String} AS s, {list:Array(String)} AS l, {none:Nullable(String)} AS z",
        parameters={"number": 7, "text": said, "list": ["a'b", "c\\"], "none": None},
    )
    assert result.column_names == ("n", "s", "l", "z")
    assert result.result_rows == [(7, said, ["a'b", "c\\"], None)]
    assert int(result.summary["read_rows"]) == 1


def test_a_parameter_longer_than_a_url(embedded_clickhouse: ClickHouse, client: Client) -> None:
    assert client.query("SELECT length({s:String})", parameters={"s": "x" * 300_000}).result_rows == [(300_000,)]
    with connect(embedded_clickhouse, form_encode_query_params=True) as form:
        assert form.query("SELECT length({s:String})", parameters={"s": "x" * 300_000}).result_rows == [(300_000,)]


def test_commands_with_and_without_a_result(client: Client) -> None:
    made = client.command("CREATE OR REPLACE TABLE made (a Int8) ENGINE = Memory")
    assert not isinstance(made, (str, int))
    assert client.command("SELECT 1 + 1") == 2
    assert client.command("SELECT name FROM system.databases WHERE 0") == ""
    assert client.command("INSERT INTO made VALUES (1), (1 + 1), ({x:Int8})", parameters={"x": 3}).written_rows == 3
    assert client.command("SELECT sum(a) FROM made") == 6
    assert client.command("EXISTS TABLE made") == 1


def test_the_rows_may_be_a_command_s_data(client: Client) -> None:
    client.command("CREATE OR REPLACE TABLE given (a Int8, b String) ENGINE = Memory")
    client.command("INSERT INTO given FORMAT CSV", data='1,"x"\n2,"y"\n')
    assert client.query("SELECT * FROM given ORDER BY a").result_rows == [(1, "x"), (2, "y")]


def test_raw_inserts_plain_and_compressed(client: Client) -> None:
    client.command("CREATE OR REPLACE TABLE raw (a UInt32, b String) ENGINE = Memory")
    assert client.raw_insert("raw", ["a", "b"], b"1,x\n", fmt="CSV").written_rows == 1
    assert (
        client.raw_insert("raw", ["a", "b"], gzip.compress(b"2,y\n"), fmt="CSV", compression="gzip").written_rows == 1
    )
    assert client.raw_insert("raw", ["a", "b"], iter([b"3,", b"z\n"]), fmt="CSV").written_rows == 1
    assert client.raw_query("SELECT * FROM raw ORDER BY a", fmt="TabSeparated") == b"1\tx\n2\ty\n3\tz\n"


def test_insert_from_a_select_over_sent_rows_is_refused_and_not_lost(client: Client) -> None:
    client.command("CREATE OR REPLACE TABLE over (a UInt32) ENGINE = Memory")
    with pytest.raises(DatabaseError) as refused:
        client.command("INSERT INTO over SELECT a * 2 FROM input('a UInt32') FORMAT CSV", data="1\n2\n")
    assert refused.value.code == 48


@pytest.mark.parametrize("compression", ["lz4", "zstd", "gzip", False])
def test_large_column_inserts_and_results(
    embedded_clickhouse: ClickHouse, database: str, compression: str | bool
) -> None:
    rows = 150_000
    with connect(embedded_clickhouse, database=database, compress=compression) as client:
        client.command("CREATE OR REPLACE TABLE wide (a UInt64, b Float64, c String) ENGINE = MergeTree ORDER BY a")
        data = [list(range(rows)), [n / 8 for n in range(rows)], [f"row {n}" for n in range(rows)]]
        summary = client.insert("wide", data, column_names=["a", "b", "c"], column_oriented=True)
        assert summary.written_rows == rows
        back = client.query("SELECT * FROM wide ORDER BY a", column_oriented=True).result_columns
        assert [list(column) for column in back] == data


def test_data_frames(client: Client) -> None:
    frame = client.query_df("SELECT number, number / 2 AS half, toString(number) AS text FROM numbers(1000)")
    assert list(frame.columns) == ["number", "half", "text"]
    assert float(frame["half"].sum()) == 999 * 1000 / 4
    client.command("CREATE OR REPLACE TABLE frame (number UInt64, half Float64, text String) ENGINE = Memory")
    client.insert_df("frame", frame)
    assert client.command("SELECT sum(half) FROM frame") == pytest.approx(999 * 1000 / 4)


def test_arrow(client: Client) -> None:
    table = client.query_arrow("SELECT number FROM numbers(10)")
    assert table.column("number").to_pylist() == list(range(10))


def test_a_result_of_no_rows(client: Client) -> None:
    assert client.query("SELECT 1 AS a WHERE 0").result_rows == []
    assert client.query("SELECT 1 AS a, 'x' AS b LIMIT 0").column_names == ("a", "b")


def test_streams_of_blocks(client: Client) -> None:
    rows = total = 0
    with client.query_row_block_stream("SELECT number, toString(number) FROM numbers(2000000)") as blocks:
        for block in blocks:
            rows += len(block)
            total += block[0][0]
    assert rows == 2_000_000
    assert total > 0


def test_a_stream_may_be_left_early(client: Client) -> None:
    with client.query_row_block_stream("SELECT number FROM numbers(30000000)") as blocks:
        assert len(next(iter(blocks))) > 0
    assert client.command("SELECT 1") == 1


def test_errors_have_code_and_name(client: Client) -> None:
    with pytest.raises(DatabaseError) as unknown:
        client.query("SELECT * FROM nowhere")
    assert (unknown.value.code, unknown.value.name) == (60, "UNKNOWN_TABLE")
    with pytest.raises(DatabaseError) as wrong:
        client.command("SELEKT 1")
    assert wrong.value.code == 62
    with pytest.raises(DatabaseError) as several:
        client.command("SELECT 1; SELECT 2")
    assert several.value.code == 62
    with pytest.raises(DatabaseError) as missing:
        client.query("SELECT {x:UInt8}")
    assert missing.value.code == 456


def test_an_error_in_the_middle_of_a_result(client: Client) -> None:
    query = "SELECT throwIf(number = 5000000, 'in the middle'), number FROM numbers(10000000)"
    with pytest.raises(DatabaseError, match="in the middle") as whole:
        client.query(query)
    assert whole.value.code == 395
    with pytest.raises(StreamFailureError, match="in the middle") as streamed:
        read_all(client, query)
    assert streamed.value.code == 395


def read_all(client: Client, query: str) -> None:
    with client.query_row_block_stream(query) as blocks:
        for _ in blocks:
            pass


def test_settings_hold_for_one_query(client: Client) -> None:
    query = "SELECT getSetting('max_block_size')"
    before = client.command(query)
    assert client.command(query, settings={"max_block_size": 777}) == 777
    assert client.command(query) == before
    with pytest.raises(DatabaseError) as unknown:
        client.query("SELECT 1", settings={"max_block_size": "many"})
    assert unknown.value.code is not None


def test_a_session_keeps_settings_and_temporary_tables(embedded_clickhouse: ClickHouse, client: Client) -> None:
    client.command("SET max_block_size = 555")
    client.command("CREATE TEMPORARY TABLE mine (a Int8)")
    client.insert("mine", [[1], [2]], column_names=["a"], column_type_names=["Int8"])
    query = "SELECT getSetting('max_block_size')"
    assert client.command(query, settings={"max_block_size": 777}) == 777
    assert client.command(query) == 555
    assert client.command("SELECT sum(a) FROM mine") == 3
    with connect(embedded_clickhouse) as other:
        assert other.command(query) != 555
        with pytest.raises(DatabaseError) as unknown:
            other.command("SELECT sum(a) FROM mine")
        assert unknown.value.code == 60


def test_the_database_of_the_client(embedded_clickhouse: ClickHouse, database: str) -> None:
    with connect(embedded_clickhouse, database=database) as client:
        assert client.command("SELECT currentDatabase()") == database
    with pytest.raises(DatabaseError) as unknown, connect(embedded_clickhouse, database="nowhere") as client:
        client.command("SELECT currentDatabase()")
    assert unknown.value.code == 81


def test_several_clients_at_once(embedded_clickhouse: ClickHouse, database: str) -> None:
    with connect(embedded_clickhouse, database=database) as client:
        client.command("CREATE OR REPLACE TABLE many (who UInt8, n UInt32) ENGINE = MergeTree ORDER BY (who, n)")
    failed: list[BaseException] = []

    def work(who: int) -> None:
        try:
            with connect(embedded_clickhouse, database=database) as mine:
                for n in range(20):
                    mine.insert("many", [[who, n]], column_names=["who", "n"], column_type_names=["UInt8", "UInt32"])
                    seen = mine.query(f"SELECT count() FROM many WHERE who = {who}").result_rows
                    assert seen == [(n + 1,)]
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_inserts_go_on_while_queries_fill_every_reader(embedded_clickhouse: ClickHouse, database: str) -> None:
    crowd = READERS + 2
    url = f"http://127.0.0.1:{embedded_clickhouse.clickhouse_port}/?max_threads=1&query={quote(LONG)}"
    ended: list[str] = []

    def ask() -> None:
        with pytest.raises(HTTPError) as error:
            urlopen(url, timeout=120)
        ended.append(error.value.headers["X-ClickHouse-Exception-Code"])
        error.value.close()

    threads = [threading.Thread(target=ask) for _ in range(crowd)]
    matching = "KILL QUERY WHERE query LIKE '%sip' || 'Hash64%'"
    with connect(embedded_clickhouse, database=database) as client:
        client.command("CREATE OR REPLACE TABLE beside (n UInt32) ENGINE = MergeTree ORDER BY n")
        for thread in threads:
            thread.start()
        until(lambda: client.raw_query(f"{matching} TEST").count(b"sipHash64") == READERS)
        for n in range(5):
            client.insert("beside", [[n]], column_names=["n"], column_type_names=["UInt32"])
        assert ended == []

        def all_ended() -> bool:
            client.raw_query(f"{matching} ASYNC")  # those that waited come up as others end
            return not any(thread.is_alive() for thread in threads)

        until(all_ended, 60.0)
        assert client.command("SELECT count() FROM beside") == 5
    assert ended == ["394"] * crowd
