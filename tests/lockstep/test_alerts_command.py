"""`lockstep alerts`: a test event end to end, silences on the topic, and what would have been sent for the past."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from alert_receivers import HttpReceiver
from click.testing import CliRunner, Result
from clickhouse_rows import store
from msgspec.structs import replace
from pagerduty_receiver import ROUTING_KEY, PagerDutyReceiver

from lockstep.cli import group
from lockstep.moments import duration_ms, moment_ms
from runtime.broker import EmbeddedBroker
from runtime.errors import UserError
from runtime.kafka import create_topics
from runtime.settings import ClickHouse, Connection
from schemas import Incident, Silence
from schemas.examples import EXAMPLES
from storage.client import Client, get_client
from storage.migrate import migrate

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
SILENCE = next(e for e in EXAMPLES if isinstance(e, Silence))


def lockstep(*arguments: str, **environment: str) -> Result:
    done = CliRunner().invoke(group, ["alerts", *arguments], env=environment)
    if done.exception is not None and not isinstance(done.exception, SystemExit | UserError):
        raise done.exception
    return done


def test_a_test_event_goes_to_every_receiver_and_team_and_is_closed(tmp_path: Path) -> None:
    with (
        PagerDutyReceiver(tmp_path, keys={ROUTING_KEY, "a" * 32}) as pagerduty,
        HttpReceiver(lambda request: (200, {}, b"")) as hook,
    ):
        done = lockstep(
            "test",
            LOCKSTEP_PAGERDUTY_ROUTING_KEY=ROUTING_KEY,
            LOCKSTEP_PAGERDUTY_ROUTING_KEY_FACILITIES="a" * 32,
            LOCKSTEP_PAGERDUTY_URL=pagerduty.url,
            LOCKSTEP_PAGERDUTY_CA=pagerduty.ca,
            LOCKSTEP_WEBHOOK_URL=hook.url,
        )
        assert done.exit_code == 0, done.output
        lines = done.output.splitlines()
        assert len(lines) == 6, "two keys and the webhook, opened and closed"
        assert all(line.startswith("ok  ") for line in lines)
        assert pagerduty.open_now == set()
        assert len(pagerduty.closed) == 2
        assert pagerduty.events[0]["payload"]["summary"].startswith("TEST of alerts from default: nothing is wrong")
        assert pagerduty.events[0]["payload"]["severity"] == "info"
        assert ROUTING_KEY not in done.output


def test_a_receiver_that_does_not_take_it_is_exit_status_1(tmp_path: Path) -> None:
    with PagerDutyReceiver(tmp_path, keys=set()) as pagerduty:
        done = lockstep(
            "test",
            "--format",
            "json",
            LOCKSTEP_PAGERDUTY_ROUTING_KEY=ROUTING_KEY,
            LOCKSTEP_PAGERDUTY_URL=pagerduty.url,
            LOCKSTEP_PAGERDUTY_CA=pagerduty.ca,
        )
    assert done.exit_code == 1
    (step,) = json.loads(done.output)
    assert (step["action"], step["outcome"]) == ("trigger", "key_refused")


@pytest.fixture(scope="module")
def broker() -> Iterator[Connection]:
    with EmbeddedBroker() as running:
        connection = Connection(broker=running.address, broker_embedded=True)
        create_topics(connection, partitions=1, replication=1)
        yield connection


def silence(broker: Connection, *arguments: str) -> Result:
    return lockstep("silence", *arguments, LOCKSTEP_BROKER=broker.broker, LOCKSTEP_BROKER_EMBEDDED="yes")


def test_a_silence_is_added_listed_and_ended(broker: Connection) -> None:
    assert silence(broker, "list").output == "no silences\n"
    wanted = (
        "--rack",
        "r03",
        "--cause",
        "coolant_flow",
        "--for",
        "4h",
        "--author",
        "mira",
        "--reason",
        "pump replaced",
    )
    added = silence(broker, "add", *wanted)
    assert added.exit_code == 0, added.output
    id_ = added.output.split()[0]
    listed = silence(broker, "list").output
    assert listed.startswith(f"{id_}  active rack r03, cause coolant_flow until ")
    assert "mira: pump replaced" in listed
    (told,) = json.loads(silence(broker, "list", "--format", "json").output)
    assert (told["rack"], told["until_ms"] - told["from_ms"], told["active"]) == ("r03", 4 * 3_600_000, True)
    assert silence(broker, "end", id_).output == f"{id_}  ended\n"
    assert silence(broker, "list").output == "no silences\n"
    assert silence(broker, "list", "--all").output.startswith(f"{id_}  ended")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("add", "--for", "1h", "--reason", "x"), "say what to silence"),
        (("add", "--rack", "r", "--for", "soon", "--reason", "x"), "give a duration"),
        (("add", "--rack", "r", "--for", "1h", "--reason", " "), "--reason is empty"),
        (("add", "--rack", "r", "--for", "1h", "--from", "2020-01-01", "--reason", "x"), "ended at 2020-01-01"),
        (("add", "--rack", "r", "--for", "1h", "--reason", "\x1b\u202e\n"), "--reason is empty"),
        (("add", "--rack", "r", "--for", "999999d", "--reason", "x"), "beyond 2100-01-01"),
        (("add", "--rack", "r", "--for", "1h", "--from", "9999-12-31T23:59", "--reason", "x"), "beyond 2100-01-01"),
        (("add", "--rack", "r", "--for", "\u0661h", "--reason", "x"), "give a duration"),
        (
            ("add", "--rack", "r", "--for", "1h", "--from", "0001-01-01T00:00+14:00", "--reason", "x"),
            "have ended at 1970",
        ),
        (("add", "--node", "r*-t03", "--for", "1h", "--reason", "x"), "--node='r*-t03': a * is for any rest"),
        (("add", "--rack", " r03", "--for", "1h", "--reason", "x"), "--rack=' r03': no name begins"),
        (("add", "--job", "a\udcff", "--for", "1h", "--reason", "x"), "--job='a\\udcff': no name"),
        (("add", "--rack", "r", "--everything", "--for", "1h", "--reason", "x"), "--everything is the whole cluster"),
        (("end", "s-none"), "no silence s-none"),
    ],
)
def test_a_silence_that_makes_no_sense_is_one_line(broker: Connection, arguments: tuple[str, ...], why: str) -> None:
    done = silence(broker, *arguments)
    assert isinstance(done.exception, UserError)
    assert why in str(done.exception)
    assert "\n" not in str(done.exception)


def test_what_was_said_to_be_added_is_followed_whatever_was_typed(broker: Connection) -> None:
    odd = ("add", "--job", "j*", "--from", "1960-01-01", "--for", "40000d", "--author", "\x1b[2Jmira\u202e", "--reason")
    added = silence(broker, *odd, "two\nlines \x1b[31m😀 " + "x" * 999)
    assert added.exit_code == 0, added.output
    (told,) = json.loads(silence(broker, "list", "--format", "json").output)
    assert told["active"]
    assert (told["author"], told["reason"][:18]) == ("[2Jmira", "two lines [31m😀 xx")
    silence(broker, "end", told["id"])


def test_a_user_without_a_name_may_silence(broker: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nobody)
    added = silence(broker, "add", "--node", "n", "--for", "1h", "--reason", "x").output
    assert f", user {os.getuid()}: x" in added
    silence(broker, "end", added.split()[0])


@pytest.mark.parametrize(
    "arguments", [("list",), ("end", "nonsense"), ("add", "--everything", "--for", "1h", "--reason", "x")]
)
def test_without_a_broker_it_is_one_line(arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    done = lockstep("silence", *arguments, LOCKSTEP_BROKER="127.0.0.1:1")
    assert isinstance(done.exception, UserError)
    assert "no broker at 127.0.0.1:1" in str(done.exception)
    assert (done.output, *capfd.readouterr()) == ("", "", "")


@pytest.fixture
def database(clickhouse_database: ClickHouse) -> Iterator[Client]:
    with contextlib.closing(get_client(clickhouse_database, database=False)) as client:
        migrate(client, clickhouse_database.clickhouse_database)
    with contextlib.closing(get_client(clickhouse_database)) as client:
        yield client


def test_a_dry_run_says_what_would_have_been_sent_and_what_waits(
    database: Client, clickhouse_database: ClickHouse
) -> None:
    at = INCIDENT.ts_ms
    grown = replace(INCIDENT, revision=1, change="update", ts_ms=at + 5000, cause="leak")
    over = replace(grown, revision=2, change="resolve", state="resolved", ts_ms=at + 60_000, resolved_ms=at + 60_000)
    silent = replace(
        INCIDENT, id="i-silent", cause="coolant_flow", culprits=(replace(INCIDENT.culprits[0], rack="r01"),)
    )
    store(database, INCIDENT, grown, over, silent, SILENCE)
    where = {
        "LOCKSTEP_CLICKHOUSE_HOST": clickhouse_database.clickhouse_host,
        "LOCKSTEP_CLICKHOUSE_PORT": str(clickhouse_database.clickhouse_port),
        "LOCKSTEP_CLICKHOUSE_DATABASE": clickhouse_database.clickhouse_database,
        "LOCKSTEP_CLICKHOUSE_USER": clickhouse_database.clickhouse_user,
        "LOCKSTEP_CLICKHOUSE_PASSWORD": clickhouse_database.clickhouse_password,
    }
    done = lockstep("dry-run", "--since", "2023-11-14", "--until", "2023-11-15", "--format", "json", **where)
    assert done.exit_code == 0, done.output
    sent = json.loads(done.stdout)
    mine = [one["action"] for one in sent if one["incident"] == INCIDENT.id]
    assert mine == ["trigger", "update", "resolve"]
    (held,) = [one for one in sent if one["incident"] == "i-silent"]
    assert (held["action"], held["why"].split(" until")[0]) == ("held", "silenced by mira")
    text = lockstep("dry-run", "--since", "2023-11-14", "--until", "2023-11-15", **where).output
    assert "GPU degraded: rank 7 on r01-t02; 30 % slower, 511 ranks wait; since 22:13 UTC" in text
    assert text.splitlines()[-1] == "2 incidents, 1 pages, 3 requests"


def test_moments_as_people_type_them() -> None:
    now_ms = 1_790_000_000_000
    assert moment_ms("2h", "--since", now_ms) == now_ms - 7_200_000
    assert moment_ms("now", "--since", now_ms) == now_ms
    assert moment_ms("1970-01-02", "--since", now_ms) == 86_400_000
    assert moment_ms("1970-01-02T01:00+01:00", "--since", now_ms) == 86_400_000
    for wrong in ("tomorrow", "0m", "-5m", ""):
        with pytest.raises(UserError):
            moment_ms(wrong, "--since", now_ms)
    with pytest.raises(UserError, match="--for='1w'"):
        duration_ms("1w", "--for")
