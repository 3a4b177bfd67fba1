"""Settings: right values from the environment and options, one clear line for wrong ones."""

import pytest

from runtime.errors import UserError
from runtime.settings import ClickHouse, Connection, from_environment


def test_defaults_environment_and_options_in_that_order() -> None:
    assert from_environment(Connection, {}).broker == "127.0.0.1:9092"
    env = {"LOCKSTEP_BROKER": "kafka-1:9092,kafka-2:9092", "LOCKSTEP_CLICKHOUSE_PORT": "9000", "OTHER": "x"}
    assert from_environment(Connection, env).broker == "kafka-1:9092,kafka-2:9092"
    assert from_environment(ClickHouse, env).clickhouse_port == 9000
    assert from_environment(Connection, env, broker="localhost:1").broker == "localhost:1"
    assert from_environment(Connection, env, broker=None).broker == "kafka-1:9092,kafka-2:9092"
    for said, meant in (("true", True), ("yes", True), ("No", False), ("1", True), ("off", False)):
        assert from_environment(Connection, {"LOCKSTEP_BROKER_EMBEDDED": said}).broker_embedded is meant


@pytest.mark.parametrize(
    ("cls", "variable", "value"),
    [
        (Connection, "LOCKSTEP_BROKER", "no-port"),
        (Connection, "LOCKSTEP_BROKER", ""),
        (Connection, "LOCKSTEP_BROKER_EMBEDDED", "perhaps"),
        (ClickHouse, "LOCKSTEP_CLICKHOUSE_PORT", "80000"),
        (ClickHouse, "LOCKSTEP_CLICKHOUSE_PORT", "many"),
        (ClickHouse, "LOCKSTEP_CLICKHOUSE_DATABASE", "drop table;"),
    ],
)
def test_a_wrong_variable_is_one_line_with_its_name(cls: type, variable: str, value: str) -> None:
    with pytest.raises(UserError, match=rf"^{variable}=") as caught:
        from_environment(cls, {variable: value})
    assert "\n" not in str(caught.value)


def test_a_wrong_option_is_named_as_the_option() -> None:
    with pytest.raises(UserError, match=r"^--clickhouse-port=70000: "):
        from_environment(ClickHouse, {}, clickhouse_port=70000)


def test_the_line_end_of_a_secret_out_of_a_file_is_no_part_of_it() -> None:
    assert (
        from_environment(Connection, {"LOCKSTEP_BROKER_PASSWORD": " two words \r\n"}).broker_password == " two words "
    )
    assert from_environment(ClickHouse, {"LOCKSTEP_CLICKHOUSE_DATABASE": "d\n"}).clickhouse_database == "d"


def test_passwords_are_never_shown() -> None:
    with pytest.raises(UserError, match=r"^--broker-password=\*\*\*: "):
        from_environment(Connection, {}, broker_password=["hunter2"])


@pytest.mark.parametrize("given", [{"cluster": "\udcff"}, {"broker_embedded": "\udcff"}, {"broker_user": "a\udc80"}])
def test_an_option_whose_bytes_are_no_text_is_one_line(given: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"^--[a-z-]+: its bytes are no UTF-8$"):
        from_environment(Connection, {}, **given)
