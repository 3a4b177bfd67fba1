"""Recorded telemetry back onto the topics, with its own timestamps, at any speed."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lockstep.replay.recording import read_recording
from lockstep.replay.table import Columns, read_table
from runtime.clock import Clock
from runtime.errors import UserError
from schemas import Record

RECORDING_SUFFIX = ".records"
TABLE_SUFFIXES = (".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz")


def read(path: Path, columns: Columns, cluster: str, run_id: int) -> Iterator[Record]:
    """The records of one file in the order of their times; UserError where it is of no known kind."""
    if path.name.endswith(RECORDING_SUFFIX):
        return read_recording(path)
    if path.name.endswith(TABLE_SUFFIXES):
        return read_table(path, columns, cluster, run_id)
    raise UserError(
        f"{path}: neither a recording ({RECORDING_SUFFIX}) nor a table ({', '.join(TABLE_SUFFIXES)}) by its name"
    )


def check(paths: Sequence[Path], columns: Columns, cluster: str) -> None:
    """UserError where a file cannot be opened, is of no known kind, or does not begin as its kind should.

    Looks at each file's first record only: what is wrong further in stops the replay there.
    """
    for path in paths:
        try:
            first = next(read(path, columns, cluster, 0), None)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from None
        if first is None:
            raise UserError(f"{path}: no record in there")


class Paced:
    """Waits until a record's time has come: `speed` event seconds a real second, 0 as fast as possible."""

    def __init__(self, speed: float, clock: Clock) -> None:
        self._speed, self._clock = speed, clock
        self._first: tuple[int, float] | None = None

    def wait(self, ts_ms: int) -> None:
        if not self._speed:
            return
        if self._first is None:
            self._first = (ts_ms, self._clock.monotonic())
        first_ms, began = self._first
        self._clock.sleep(began + (ts_ms - first_ms) / 1000 / self._speed - self._clock.monotonic())


def send_all(
    records: Iterator[Record], send: Callable[[Record], None], paced: Paced, progress: Callable[[int, int], None]
) -> int:
    """Send `records` in their own rhythm; `progress` gets the count and the newest time. Returns the count."""
    count = 0
    for record in records:
        paced.wait(record.ts_ms)
        send(record)
        count += 1
        progress(count, record.ts_ms)
    return count


def files(paths: Sequence[str]) -> list[Path]:
    """The files of `paths`, those in folders included, in order of name; UserError where one or all are missing."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            known = (RECORDING_SUFFIX, *TABLE_SUFFIXES)
            found += sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(known))
        elif path.is_file():
            found.append(path)
        else:
            raise UserError(f"{path}: {'neither a file nor a folder' if path.exists() else 'no such file'}")
    if not found:
        raise UserError(f"{', '.join(paths)}: nothing to replay in there")
    return found
