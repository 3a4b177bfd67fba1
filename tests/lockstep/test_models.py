"""`lockstep models`: what is published, what workers take from it, and the way back."""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from detectors.forest.model import Forest
from detectors.train.fleet import simulated_forest
from lockstep.cli import group
from lockstep.publish import KEPT, LEAD_MS, before, publish, published
from runtime.clock import SystemClock
from runtime.errors import UserError
from runtime.health import Counters
from runtime.kafka import Producer
from runtime.settings import Connection
from schemas import Model
from schemas.codec import encode
from streams.models import OWN
from streams.plan import load_model


@cache
def forest(seed: int) -> Forest:
    return simulated_forest(seed, rows=12_000) if seed == 1 else load_model("")


@pytest.fixture
def connection(embedded: Connection, unique: Callable[[str], str]) -> Connection:
    return msgspec.structs.replace(embedded, cluster=unique("models"))


def models(connection: Connection, *arguments: str) -> str:
    env = {name: None for name in os.environ if name.startswith("LOCKSTEP_")}
    where = ("--broker", connection.broker, "--broker-embedded", "yes", "--cluster", connection.cluster)
    done = CliRunner().invoke(group, ["models", *arguments, *where], env=env)
    if done.exception is not None:
        raise done.exception
    return done.output


def test_publish_list_and_the_way_back(connection: Connection, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for seed, path in enumerate(paths, 1):
        path.write_bytes(forest(seed).to_bytes())
    first, second = forest(1).name, forest(2).name
    assert models(connection, "list") == "in force: what each worker was started with\n"

    began_ms = SystemClock().now_ms()
    said = models(connection, "publish", str(paths[0]))
    assert said.startswith(f"{first} scores from ")
    (one,) = json.loads(models(connection, "list", "--format", "json"))
    assert began_ms + LEAD_MS <= one["from_ms"] <= SystemClock().now_ms() + LEAD_MS + 1000
    assert one["from_ms"] % 1000 == 0
    assert one["state"] == "to come"
    assert one["rows"] == 12_000

    models(connection, "publish", str(paths[0]), "--from", "2h")
    assert "then " + first in models(connection, "publish", str(paths[1]), "--from", "1h")
    states = [line[21:29].strip() for line in models(connection, "list").splitlines()]
    assert states == ["over", "in force", "to come"]

    assert models(connection, "rollback").startswith(second)
    assert [one.record.model for one in published(connection)] == [first, second, second]
    assert models(connection, "rollback", "--to", OWN).startswith("own scores from ")
    with pytest.raises(
        UserError, match=rf"no model 'fleet-0' is kept; there are {', '.join(sorted([first, second]))}, own$"
    ):
        models(connection, "rollback", "--to", "fleet-0")


def test_only_so_many_are_kept_and_the_oldest_goes(connection: Connection) -> None:
    for number in range(KEPT + 3):
        publish(connection, forest(1), 1_000_000 * (number + 1), published(connection))
    assert [one.record.ts_ms for one in published(connection)] == [1_000_000 * (n + 4) for n in range(KEPT)]


def test_a_refused_one_is_listed_and_is_nothing_to_go_back_to(connection: Connection) -> None:
    publish(connection, forest(1), 5000, published(connection))
    broken = Model(cluster=connection.cluster, ts_ms=9000, name="mine", model="mine-1", payload=b"\x80pickle")
    producer = Producer(connection, "test", Counters())
    producer.send_and_wait(broken.topic, broken.key, encode(broken), 10)
    producer.close(5)
    lines = models(connection, "list").splitlines()
    assert lines[0].startswith(f"1970-01-01 00:00:05  in force  {forest(1).name}  simulated healthy deviations")
    assert lines[1] == (
        "1970-01-01 00:00:09  refused   mine-1  not a Lockstep forest model (its first bytes are others)"
    )
    newest, target = before(published(connection), "")
    assert newest.ts_ms == 5000
    assert target is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rollback"], "no model was published: every worker scores by the one it was started with"),
        (["publish", __file__], r"test_models.py: not a Lockstep forest model"),
        (["publish", "{model}", "--from", "soonish"], "--from='soonish': give a time"),
        (["publish", "{model}", "--from", "2101-01-01"], "no time between 1970 and 2100"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    connection: Connection, arguments: list[str], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    path.write_bytes(forest(1).to_bytes())
    with pytest.raises(UserError, match=said):
        models(connection, *(argument.format(model=path) for argument in arguments))
    assert published(connection) == []
