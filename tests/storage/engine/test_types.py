"""Every column type in use, in and out intact: Native both ways, and against what the engine itself reads of them."""

import datetime
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import IPv4Address

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client

from runtime.settings import ClickHouse

UTC = datetime.UTC
MOMENT = datetime.datetime(2026, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)
EVERY_BYTE = bytes(range(256))

TYPES: dict[str, list[object]] = {
    "String": ["", "plain", "tab\tline\n'\"\\\x00", "€ 猫"],
    "LowCardinality(String)": ["", "node-1", "node-2", "node-1"],
    "LowCardinality(Nullable(String))": [None, "a", "", None],
    "FixedString(4)": [b"abcd", b"\x00\x01\xff\xfe"],
    "Bool": [True, False],
    "UInt8": [0, 255],
    "UInt16": [0, 65535],
    "UInt32": [0, 2**32 - 1],
    "UInt64": [0, 2**64 - 1],
    "Int8": [-128, 127],
    "Int16": [-(2**15), 2**15 - 1],
    "Int32": [-(2**31), 2**31 - 1],
    "Int64": [-(2**63), 2**63 - 1],
    "Float32": [0.0, -1.5, math.inf],
    "Float64": [0.1, -1e300, -math.inf],
    "Date": [datetime.date(1970, 1, 1), datetime.date(2100, 2, 28)],
    "DateTime('UTC')": [MOMENT.replace(microsecond=0)],
    "DateTime64(3, 'UTC')": [MOMENT, datetime.datetime(1999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)],
    "UUID": [uuid.UUID(int=0), uuid.UUID("12345678-1234-5678-1234-567812345678")],
    "Decimal(18, 4)": [Decimal("-12345678901234.5678"), Decimal("0.0001")],
    "Enum8('idle' = -1, 'busy' = 2)": ["idle", "busy"],
    "Enum16('a' = 1000)": ["a"],
    "Nullable(Float64)": [None, 1.25],
    "Nullable(String)": [None, "", "x"],
    "Nullable(UInt8)": [None, 0],
    "Array(String)": [[], ["a", "", "b\n"]],
    "Array(Float32)": [[], [0.5, 1.5]],
    "Array(LowCardinality(String))": [["x", "y", "x"], []],
    "Array(Array(UInt8))": [[[1], [], [2, 3]]],
    "Array(Nullable(Int64))": [[None, -1]],
    "Map(String, Float64)": [{}, {"power_w": 512.5, "": -1.0}],
    "Map(LowCardinality(String), UInt64)": [{"a": 1, "b": 2**64 - 1}],
    "Tuple(UInt8, String)": [(1, "x")],
    "IPv4": [IPv4Address("10.1.2.3")],
}


@pytest.fixture(scope="module")
def client(embedded_clickhouse: ClickHouse) -> Iterator[Client]:
    name = f"types_{uuid.uuid4().hex[:8]}"
    address = {"host": embedded_clickhouse.clickhouse_host, "port": embedded_clickhouse.clickhouse_port}
    with clickhouse_connect.get_client(**address, settings={"allow_suspicious_low_cardinality_types": 1}) as first:
        first.command(f"CREATE DATABASE {name}")
        with clickhouse_connect.get_client(**address, database=name, tz_mode="aware") as client:
            yield client
        first.command(f"DROP DATABASE {name}")


@pytest.mark.parametrize("type", TYPES)
def test_a_column_comes_back_as_it_went(client: Client, type: str) -> None:
    values = TYPES[type]
    client.command(f"CREATE OR REPLACE TABLE one (n UInt32, v {type}) ENGINE = MergeTree ORDER BY n")
    summary = client.insert("one", [list(range(len(values))), values], column_names=["n", "v"], column_oriented=True)
    assert summary.written_rows == len(values)
    back = client.query("SELECT v FROM one ORDER BY n").result_columns[0]
    assert list(back) == values
    text = ", ".join(f"({n}, {{v{n}:{type}}})" for n in range(len(values)))
    if not type.startswith(("Map", "Tuple", "FixedString")):  # the client writes no such parameters
        client.command("TRUNCATE TABLE one")
        client.command(f"INSERT INTO one VALUES {text}", parameters={f"v{n}": value for n, value in enumerate(values)})
        assert list(client.query("SELECT v FROM one ORDER BY n").result_columns[0]) == values


def test_not_a_number_stays_one(client: Client) -> None:
    client.command("CREATE OR REPLACE TABLE nan (a Float32, b Float64) ENGINE = Memory")
    client.insert("nan", [[math.nan, math.nan]], column_names=["a", "b"])
    assert client.query("SELECT isNaN(a), isNaN(b), a FROM nan").result_rows[0][:2] == (1, 1)


def test_binary_strings_pass_intact(client: Client) -> None:
    values = [EVERY_BYTE, EVERY_BYTE[::-1] * 5000, b"\x00", b"INSERT INTO t FORMAT Native\n\x01"]
    client.command("CREATE OR REPLACE TABLE binary (n UInt8, v String) ENGINE = MergeTree ORDER BY n")
    client.insert("binary", [[0, 1, 2, 3], values], column_names=["n", "v"], column_oriented=True)
    back = client.query("SELECT v FROM binary ORDER BY n", query_formats={"String": "bytes"})
    assert [bytes(value) for value in back.result_columns[0]] == values
    assert client.query("SELECT hex(v) FROM binary WHERE n = 0").result_rows == [(EVERY_BYTE.hex().upper(),)]


def test_all_types_in_one_table_of_many_rows(client: Client) -> None:
    rows = 20_000
    columns = [f"c{n}" for n in range(len(TYPES))]
    declared = ", ".join(f"{name} {type}" for name, type in zip(columns, TYPES, strict=True))
    client.command(f"CREATE OR REPLACE TABLE wide (n UInt32, {declared}) ENGINE = MergeTree ORDER BY n")
    data = [list(range(rows)), *([values[n % len(values)] for n in range(rows)] for values in TYPES.values())]
    client.insert("wide", data, column_names=["n", *columns], column_oriented=True)
    back = client.query(f"SELECT {', '.join(columns)} FROM wide ORDER BY n").result_columns
    for type, sent, received in zip(TYPES, data[1:], back, strict=True):
        assert list(received) == sent, type
