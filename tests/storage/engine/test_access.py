"""Who may speak to the engine."""

import base64

import pytest

from storage.engine.access import Access, credentials
from storage.engine.errors import ClickHouseError

LOCAL = {"Host": "127.0.0.1:8123"}


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_credentials_come_from_three_places() -> None:
    assert credentials({}, {}) == ("default", "")
    assert credentials({"user": "u", "password": "p"}, {}) == ("u", "p")
    assert credentials({"user": "u"}, basic("joe:a:b")) == ("joe", "a:b")
    assert credentials({}, {"X-ClickHouse-User": "x", "X-ClickHouse-Key": "k"} | basic("joe:p")) == ("x", "k")


@pytest.mark.parametrize(
    ("given", "headers"),
    [
        ({}, {}),
        ({"user": "joe"}, {}),
        ({"user": "joe", "password": "Secret"}, {}),
        ({"user": "joé", "password": "secret"}, {}),
        ({"user": "joe", "password": "sec\udcff"}, {}),
        ({"user": "joe", "password": "secret"}, basic("joe:wrong")),
        ({}, {"Authorization": "Basic !"}),
        ({}, {"Authorization": "Bearer secret"}),
    ],
)
def test_wrong_credentials_are_refused(given: dict[str, str], headers: dict[str, str]) -> None:
    with pytest.raises(ClickHouseError) as refused:
        Access("joe", "secret").check(given, headers)
    assert refused.value.code == 516
    assert "secret" not in refused.value.text


def test_right_credentials_pass() -> None:
    Access("joe", "secret").check({}, basic("joe:secret"))
    Access("jœ", "sécret").check({}, basic("jœ:sécret"))
    Access("default", "").check({}, LOCAL)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example:8123"},
        LOCAL | {"Origin": "https://evil.example"},
        LOCAL | {"Origin": "null"},
        LOCAL | {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_web_page_gets_nothing_without_a_password(headers: dict[str, str]) -> None:
    with pytest.raises(ClickHouseError, match="web page"):
        Access("default", "").check({}, headers)
    Access("joe", "secret").check({}, headers | basic("joe:secret"))


def test_a_page_of_this_machine_may_ask() -> None:
    Access("default", "").check({}, {"Host": "localhost:8123", "Origin": "http://localhost:3000"})
    Access("default", "").check({}, {"Host": "[::1]:8123", "Sec-Fetch-Site": "same-origin"})
