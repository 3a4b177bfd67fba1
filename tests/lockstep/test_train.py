"""`lockstep train` on a small fleet's stored samples: what is left out, what it says, what it publishes."""

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result
from clickhouse_rows import store
from node_frames import COLUMN, T0, node_frame, readings

from detectors.forest.model import Forest
from lockstep.cli import group
from lockstep.publish import published
from runtime.errors import UserError
from runtime.settings import ClickHouse, Connection
from schemas import Incident, NodeFrame
from schemas.finding import Subject
from storage.client import get_client
from storage.migrate import migrate
from streams.plan import load_model

NODES, SECONDS, GPUS = 5, 900, 4
SLOW_FROM = 800


def _frames() -> Iterator[NodeFrame]:
    """A healthy fleet, but for one GPU that gets slow in the last minutes and that no incident speaks of."""
    random = np.random.default_rng(1)
    for number in range(NODES):
        for second in range(SECONDS):
            values = readings(random, GPUS)
            if number == 2 and second >= SLOW_FROM:
                values[1, COLUMN["sm_clock_mhz"]], values[1, COLUMN["tensor_active_ratio"]] = 1400, 0.3
            yield node_frame(second, values, job="", node=f"n{number}")


@pytest.fixture(scope="module")
def history(clickhouse: ClickHouse) -> Iterator[ClickHouse]:
    name = f"train_{uuid.uuid4().hex[:12]}"
    settings = msgspec.structs.replace(clickhouse, clickhouse_database=name)
    told = Incident(
        cluster="c", ts_ms=T0 + 330_000, id="i-1", revision=1, change="resolve", state="resolved", kind="degradation",
        scope="gpu", cause="unknown", confidence=0.5, culprits=(Subject(scope="gpu", node="n1", gpu="GPU-1"),),
        onset_ms=T0 + 300_000, detected_ms=T0 + 305_000, resolved_ms=T0 + 330_000,
    )  # fmt: skip
    with contextlib.closing(get_client(clickhouse, database=False)) as client:
        migrate(client, name)
        with contextlib.closing(get_client(settings)) as own:
            store(own, *_frames(), told)
        yield settings
        client.command(f"DROP DATABASE {name} SYNC")


def train(history: ClickHouse, *arguments: str) -> Result:
    env = {name: None for name in os.environ if name.startswith("LOCKSTEP_")}
    given = {"host": history.clickhouse_host, "port": history.clickhouse_port, "database": history.clickhouse_database}
    where = [word for name, value in given.items() for word in (f"--clickhouse-{name}", str(value))]
    password = {"LOCKSTEP_CLICKHOUSE_PASSWORD": history.clickhouse_password}
    return CliRunner().invoke(group, ["train", "--cluster", "c", *where, *arguments], env=env | password)


@pytest.fixture(scope="module")
def trained(history: ClickHouse, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The file of a model, and the report on it."""
    path = tmp_path_factory.mktemp("model") / "c.forest"
    done = train(history, "--hours", "0.25", "--margin", "20s", "--output", str(path), "--format", "json")
    assert done.exit_code == 0, done.output
    return path, json.loads(done.stdout)


def test_a_model_is_trained_on_what_is_healthy_and_shown_on_the_rest(trained: tuple[Path, dict[str, Any]]) -> None:
    path, report = trained
    assert (report["nodes"], report["gpus"], report["incidents"]) == (NODES, NODES * GPUS, 1)
    assert report["split_ms"] - report["from_ms"] == 675_000
    assert report["left_out"] == GPUS * (20 + 30 + 20)
    assert report["trained_on"] + report["left_out"] + report["not_judged"] == report["ticks"] == NODES * GPUS * 675
    forest = Forest.from_bytes(path.read_bytes())
    assert forest.name == report["new"]["model"]
    assert forest.training.rows == report["trained_on"]
    assert (forest.training.from_ms, forest.training.to_ms) == (report["from_ms"], report["split_ms"])
    assert forest.training.source == "cluster c: 5 of 5 nodes, 20 GPUs, without what 1 of its incidents were about"
    assert [(alarm[0], alarm[1]) for alarm in report["new"]["alarms"]] == [("n2", "GPU-1")]
    assert abs(report["new"]["alarms"][0][2] - T0 - SLOW_FROM * 1000) < 10_000
    assert report["own"]["model"] == load_model("").name
    assert report["new"]["shares"]["0.1"] < 0.15


def test_the_same_seed_gives_the_same_bytes_and_published_they_are_on_the_topic(
    history: ClickHouse, trained: tuple[Path, dict[str, Any]], embedded: Connection, tmp_path: Path
) -> None:
    connection, path = msgspec.structs.replace(embedded, cluster="c"), tmp_path / "again"
    broker = ("--broker", connection.broker, "--broker-embedded", "yes", "--publish")
    done = train(history, "--hours", "0.25", "--margin", "20s", "--nodes", "5", "--output", str(path), *broker)
    assert done.exit_code == 0, done.output
    assert "5 of 5 nodes, 20 GPUs" in done.output
    (one,) = published(connection)
    assert one.record.payload == path.read_bytes() == trained[0].read_bytes()
    assert f"published    {one.record.model} scores from " in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--nodes", "1"],
            r"cluster c from .* to .*: \d+ healthy rows; at least 10000 are needed .*--hours or --nodes",
        ),
        (["--to", "2001-01-01"], r"no GPU samples of cluster 'c' from .*: the newest is of 2023-11-14 22:28:19"),
        (["--cluster", "elsewhere"], r"no GPU samples of cluster 'elsewhere' in the database"),
        (["--clickhouse-port", "1"], r"ClickHouse at 127.0.0.1:1 does not answer"),
        (["--output", "/no/such/folder/x"], r"there is no folder /no/such/folder"),
        (["--name", "a b"], r"--name='a b': give letters"),
        (["--publish", "--broker", "127.0.0.1:1"], r"no broker at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_trained_is_one_line(
    history: ClickHouse, arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.reach.BROKER_S", 0.2)
    monkeypatch.chdir(tmp_path)
    failed = train(history, "--hours", "0.25", *arguments)
    assert isinstance(failed.exception, UserError)
    with pytest.raises(UserError, match=said):
        raise failed.exception
    assert list(tmp_path.iterdir()) == []
