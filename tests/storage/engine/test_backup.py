"""A data folder into a file and back, and from engine to engine."""

from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_provider import engine
from clickhouse_rows import store

from runtime.errors import UserError
from runtime.settings import ClickHouse
from schemas.examples import EXAMPLES
from storage.client import get_client
from storage.copy import copy
from storage.ddl import MADE
from storage.engine.backup import backup, restore
from storage.engine.settings import EngineSettings
from storage.migrate import migrate
from storage.roll import Roller
from storage.rollups import ROLLUPS

pytestmark = pytest.mark.slow


def counts(client: Client) -> dict[str, int]:
    return {made.name: int(client.query(f"SELECT count() FROM {made.name} FINAL").result_rows[0][0]) for made in MADE}


def fill(settings: ClickHouse) -> dict[str, int]:
    with closing(get_client(settings, database=False)) as client:
        migrate(client, settings.clickhouse_database)
    with closing(get_client(settings)) as client:
        store(client, *EXAMPLES)
        Roller(client, {"gpu_1m": ROLLUPS["gpu_1m"]}).roll_all()
        return counts(client)


def test_a_folder_comes_back_from_its_backup_and_an_engine_s_history_goes_to_another(tmp_path: Path) -> None:
    held, made, file = tmp_path / "held", tmp_path / "made", tmp_path / "history.tar"
    with engine(held) as settings:
        before = fill(settings)
        with pytest.raises(UserError, match="is in use: stop the other engine"):
            backup(EngineSettings(engine_data=str(held)), file)
    assert before["gpu_samples"] == before["gpu_1m"] == before["incidents"] == 1
    assert backup(EngineSettings(engine_data=str(held)), file) == file.stat().st_size
    with pytest.raises(UserError, match="exists already"):
        backup(EngineSettings(engine_data=str(held)), file)
    restore(EngineSettings(engine_data=str(made)), file)
    with pytest.raises(UserError, match="holds data already"):
        restore(EngineSettings(engine_data=str(made)), file)
    with engine(made) as settings, closing(get_client(settings)) as source:
        assert counts(source) == before
        with closing(get_client(settings, database=False)) as client:
            migrate(client, "elsewhere")
        there = msgspec.structs.replace(settings, clickhouse_database="elsewhere")
        with closing(get_client(there)) as target:
            for _ in range(2):
                assert copy(source, target) >= sum(before.values())
                assert counts(target) == before
            target.command("ALTER TABLE steps DROP COLUMN work")
            with pytest.raises(UserError, match=r"target database is not up to date \(column steps.work is missing\)"):
                copy(source, target)


def test_what_is_no_backup_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "x.tar"
    file.write_bytes(b"no tar" * 1000)
    with pytest.raises(UserError, match="is no whole backup"):
        restore(EngineSettings(engine_data=str(tmp_path / "new")), file)
    for odd in ("~nobody-of-that-name/x", "a\nb", "\udcff"):
        with pytest.raises(UserError, match="choose another by --data"):
            backup(EngineSettings(engine_data=odd), tmp_path / "y.tar")
    for missing in ("x" * 5000, str(tmp_path / "x.tar")):
        with pytest.raises(UserError, match="no such folder"):
            backup(EngineSettings(engine_data=missing), tmp_path / "y.tar")
    with pytest.raises(UserError, match="no such folder"):
        backup(EngineSettings(engine_data=str(tmp_path / "nowhere")), tmp_path / "y.tar")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no engine has stored anything"):
        backup(EngineSettings(engine_data=str(tmp_path / "empty")), tmp_path / "y.tar")
