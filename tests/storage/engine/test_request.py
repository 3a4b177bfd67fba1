"""A request of ClickHouse's HTTP interface, read from its parts."""

import pytest

from storage.engine.errors import ClickHouseError
from storage.engine.request import Call, Session, call_of, pairs_of, set_statement


def call(query_string: str, method: str = "POST", **headers: str) -> Call:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return call_of(method, pairs_of(query_string), named)


def test_settings_parameters_and_what_is_neither() -> None:
    made = call(
        "query=SELECT+1&max_threads=1&param_x=a%5Ctb&database=d&user=u&password=p&quota_key=q&client_protocol_version=54"
    )
    assert made.query == b"SELECT 1"
    assert made.settings == {"max_threads": "1", "database": "d"}
    assert made.params == {"x": "a\\tb"}
    assert (made.format, made.session, made.read_only, made.whole) == (
        "TabSeparated",
        None,
        False,
        False,
    )


def test_get_reads_only() -> None:
    assert call("query=SELECT+1", "GET").read_only
    assert call("query=SELECT+1", "HEAD").read_only


def test_the_statement_keeps_bytes_that_are_no_text() -> None:
    assert call("query=SELECT+'%FF%00'").query == b"SELECT '\xff\x00'"


def test_a_parameter_that_is_no_text_is_refused() -> None:
    with pytest.raises(ClickHouseError, match="Parameter x is not UTF-8"):
        call("param_x=%FF")


def test_names_from_headers_and_url() -> None:
    made = call("query_id=mine", X_ClickHouse_Database="d", X_ClickHouse_Format="CSV")
    assert (made.settings, made.format) == ({"database": "d"}, "CSV")
    assert call("default_format=JSON", X_ClickHouse_Format="CSV").format == "JSON"


@pytest.mark.parametrize(("value", "whole"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_wait_end_of_query(value: str, whole: bool) -> None:
    assert call(f"wait_end_of_query={value}").whole is whole


def test_compression_is_http_s_own() -> None:
    assert call("", Accept_Encoding="gzip, zstd").answer_encoding == "zstd"
    assert call("enable_http_compression=0", Accept_Encoding="gzip").answer_encoding == ""
    assert call("", Content_Encoding=" LZ4 ").body_encoding == "lz4"
    assert call("compress=0&decompress=0").settings == {}
    with pytest.raises(ClickHouseError) as refused:
        call("decompress=1")
    assert refused.value.code == 48


def test_sessions() -> None:
    assert call("session_id=s").session == Session("s", 60)
    assert call("session_id=s&session_timeout=5&session_check=1&close_session=1").session == Session("s", 5, True, True)
    assert call("session_id=&session_timeout=5").session is None
    with pytest.raises(ClickHouseError) as refused:
        call("session_id=s&session_timeout=soon")
    assert refused.value.code == 374


def test_a_setting_s_name_cannot_carry_sql() -> None:
    with pytest.raises(ClickHouseError) as refused:
        call("max_threads%3D1%2C+readonly=0")
    assert refused.value.code == 115


def test_a_format_s_name_cannot_carry_a_header() -> None:
    with pytest.raises(ClickHouseError) as refused:
        call("default_format=CSV%0D%0AX-Header:+1")
    assert refused.value.code == 73


def test_a_value_cannot_carry_sql() -> None:
    assert set_statement({"a": "x', b = '\\"}) == "SET a = 'x\\', b = \\'\\\\'"
    assert set_statement({"x": "1"}, prefix="param_") == "SET param_x = '1'"
