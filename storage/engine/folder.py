"""The data folder: held by one process, with the engine's own configuration beside the data."""

import os
import shutil
from pathlib import Path

from runtime.errors import UserError
from runtime.files import Lock, named_folder, write_whole
from storage.engine.settings import EngineSettings

MIB = 1 << 20

# Everything but what reaches outside the data folder (file, url, s3, executable, dictionaries), and what would end
# this process or make users. Limits are also constraints: SET and SETTINGS cannot go above them.
_USERS = """<clickhouse>
  <profiles><default>
    <max_memory_usage>{query_memory}</max_memory_usage>
    <max_execution_time>{query_time_s}</max_execution_time>
    <max_threads>{threads}</max_threads>
    <async_insert>0</async_insert>
    <implicit_select>0</implicit_select>
    {fixed}
    <constraints>
      {constants}
      <max_memory_usage><min>1</min><max>{query_memory}</max></max_memory_usage>
      <max_execution_time><min>1</min><max>{query_time_s}</max></max_execution_time>
      <max_threads><max>{threads}</max></max_threads>
    </constraints>
  </default></profiles>
  <quotas><default/></quotas>
  <users><default>
    <password/>
    <networks><ip>::/0</ip></networks>
    <profile>default</profile>
    <quota>default</quota>
    <grants><query>GRANT SHOW, SELECT, INSERT, ALTER, TRUNCATE, OPTIMIZE, CHECK, KILL QUERY, INTROSPECTION,
      CREATE DATABASE, CREATE TABLE, CREATE VIEW, CREATE TEMPORARY TABLE, CREATE FUNCTION,
      DROP DATABASE, DROP TABLE, DROP VIEW, DROP FUNCTION, UNDROP TABLE,
      SYSTEM DROP CACHE, SYSTEM FLUSH, SYSTEM MERGES, SYSTEM TTL MERGES, SYSTEM VIEWS ON *.*</query></grants>
  </default></users>
</clickhouse>
"""

_FIXED = {
    # They name files of this machine, or queries in strings, or another server.
    "format_schema": "",
    "output_format_schema": "",
    "format_template_resultset": "",
    "format_template_row": "",
    "format_avro_schema_registry_url": "",
    "input_format_record_errors_file_path": "",
    "url_base": "",
    "s3_base": "",
    "allow_experimental_ai_functions": "0",
    # Other languages, and SQL inside literals, which nobody has looked at beforehand (`forbidden`).
    "dialect": "clickhouse",
    "polyglot_dialect": "",
    "allow_experimental_eval_table_function": "0",
    "additional_table_filters": "{}",
    "additional_result_filter": "",
    "select": "",
    "filter": "",
    "order": "",
    "sort": "",
    "implicit_table_at_top_level": "",
    "parallel_replicas_custom_key": "",
    "schema_inference_hints": "",
}
"""Settings that no client may change."""

_SERVER = """<clickhouse>
  <logger><level>none</level></logger>
  <users_config>{users}</users_config>
  <max_server_memory_usage>{memory}</max_server_memory_usage>
  <mark_cache_size>{cache}</mark_cache_size>
  <primary_index_cache_size>{cache}</primary_index_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <mmap_cache_size>0</mmap_cache_size>
  <index_mark_cache_size>{small}</index_mark_cache_size>
  <background_pool_size>2</background_pool_size>
  <background_schedule_pool_size>2</background_schedule_pool_size>
  <background_common_pool_size>2</background_common_pool_size>
  <background_fetches_pool_size>1</background_fetches_pool_size>
  <background_move_pool_size>1</background_move_pool_size>
  <max_thread_pool_size>256</max_thread_pool_size>
</clickhouse>
"""


def hold(settings: EngineSettings) -> tuple[Path, Lock]:
    """The data folder, made where missing, and the lock that keeps a second process off it; UserError otherwise."""
    folder = named_folder(settings.engine_data, "--data or LOCKSTEP_ENGINE_DATA")
    if "?" in str(folder) or "&" in str(folder):
        raise UserError(f"data folder {folder}: the engine takes no '?' or '&' in a path; choose another")
    try:
        (folder / "spool").mkdir(parents=True, exist_ok=True)
        lock = Lock(
            folder / "lockstep.lock",
            f"data folder {folder} is in use: stop the other engine, or choose another folder (LOCKSTEP_ENGINE_DATA)",
        )
        for left in (folder / "spool").iterdir():  # by a process that was killed
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    except OSError as error:
        raise UserError(f"data folder {folder}: {error.strerror}; choose another (LOCKSTEP_ENGINE_DATA)") from None
    return folder, lock


def configure(folder: Path, settings: EngineSettings) -> Path:
    """Write the engine's configuration into `folder`; the path of the file that the engine is started with."""
    users, server = folder / "users.xml", folder / "server.xml"
    cache = min(64, settings.engine_memory_mb // 16) * MIB
    text = _USERS.format(
        query_memory=settings.engine_query_memory_mb * MIB,
        query_time_s=max(1, round(settings.engine_query_time_s)),
        threads=settings.engine_threads,
        fixed="".join(f"<{name}>{value}</{name}>" for name, value in _FIXED.items()),
        constants="".join(f"<{name}><const/></{name}>" for name in _FIXED),
    )
    write_whole(users, text.encode())
    text = _SERVER.format(users=_escaped(users), memory=settings.engine_memory_mb * MIB, cache=cache, small=cache // 4)
    write_whole(server, text.encode())
    return server


def has_default(folder: Path) -> bool:
    """Whether database `default` was made by us and has had a table: before it has one, its statement is there, but not
    the folder of its tables, and the engine would not attach it."""
    return (folder / "metadata" / "default").exists()


def _escaped(path: Path) -> str:
    return os.fspath(path).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
