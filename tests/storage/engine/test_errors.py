"""The engine's exception texts become ClickHouse's errors over HTTP."""

import pytest

from storage.engine.errors import ClickHouseError, from_engine, late, status


@pytest.mark.parametrize(
    ("message", "code", "name", "text"),
    [
        (
            "Code: 164. DB::Exception: default: Cannot execute query in readonly mode. (READONLY)",
            164,
            "READONLY",
            "default: Cannot execute query in readonly mode.",
        ),
        (
            "Streaming query failed: Code: 394. DB::Exception: Query was cancelled. (QUERY_WAS_CANCELLED)",
            394,
            "QUERY_WAS_CANCELLED",
            "Query was cancelled.",
        ),
        (
            "Code: 452. DB::Exception: Code: 452. DB::Exception: Setting a shouldn't be greater than 6. "
            "(SETTING_CONSTRAINT_VIOLATION) (version 26.9.2.1). (SETTING_CONSTRAINT_VIOLATION)",
            452,
            "SETTING_CONSTRAINT_VIOLATION",
            "Setting a shouldn't be greater than 6.",
        ),
        (
            "Streaming insert finish failed: Code: 27. DB::Exception: Cannot parse input: (at row 1)\n: \nRow 1. "
            "(CANNOT_PARSE_INPUT_ASSERTION_FAILED) (version 26.9.2.1 (official build))",
            27,
            "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
            "Cannot parse input: (at row 1)\n: \nRow 1.",
        ),
        ("the disk is gone", 1002, "UNKNOWN_EXCEPTION", "the disk is gone"),
    ],
)
def test_code_name_and_text(message: str, code: int, name: str, text: str) -> None:
    error = from_engine(message)
    assert (error.code, error.name, error.text) == (code, name, text)


def test_the_line_that_clients_parse() -> None:
    error = ClickHouseError((60, "UNKNOWN_TABLE"), "No t.")
    assert error.line("26.9") == "Code: 60. DB::Exception: No t. (UNKNOWN_TABLE) (version 26.9)\n"


def test_statuses() -> None:
    codes = {60: 404, 62: 400, 159: 408, 194: 401, 241: 500, 516: 403, 48: 501, 999: 500}
    assert {code: status(code) for code in codes} == codes


def test_a_late_error_is_found_by_its_tag() -> None:
    block = late("Code: 1. DB::Exception: no\n", "tag")
    assert block == b"\r\n__exception__\r\ntag\r\nCode: 1. DB::Exception: no\n27 tag\r\n__exception__\r\n"
