"""The spool: what was accepted comes out once or again, in order, whatever happens to process and disk."""

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.agent import spool as module
from collectors.agent.spool import Spool, next_run_id
from runtime.health import Counters

MIB = 1 << 20


def filled(spool: Spool, count: int, size: int = 100) -> list[int]:
    return [spool.append("node-frames", "n1", bytes([i % 256]) * size) for i in range(count)]


def drain(spool: Spool, most: int = 7) -> list[int]:
    """Read everything and confirm it; the numbers in the order they came."""
    numbers: list[int] = []
    at = spool.delivered
    while True:
        entries, at = spool.read(at, most)
        numbers += [entry.number for entry in entries]
        if not entries:
            return numbers
        spool.confirm(at)


def kill(spool: Spool) -> None:
    """What the kernel does with a process that is killed: its files are closed, and nothing else happens."""
    spool._reader.close()
    spool._end_segment()


def test_entries_come_out_whole_and_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MIB, Counters())
    spool.append("events", "n1", b"one")
    spool.append("node-frames", "n2", b"\x00\xff")
    entries, at = spool.read(0, 10)
    assert [tuple(entry) for entry in entries] == [(0, "events", "n1", b"one"), (1, "node-frames", "n2", b"\x00\xff")]
    assert at == 2
    assert spool.waiting == 2
    spool.confirm(at)
    assert spool.waiting == 0
    assert spool.read(0, 10) == ([], 2)
    spool.close()


def test_without_confirmation_a_restart_gives_everything_again(tmp_path: Path) -> None:
    first = Spool(tmp_path, MIB, Counters())
    filled(first, 10)
    first.confirm(4)
    first.close()
    second = Spool(tmp_path, MIB, Counters())
    assert drain(second) == [4, 5, 6, 7, 8, 9]
    assert second.append("events", "n1", b"next") == 10
    second.close()
    third = Spool(tmp_path, MIB, Counters())
    assert drain(third) == [10]
    third.close()


def test_a_killed_agent_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    first = Spool(tmp_path, MIB, Counters())
    filled(first, 10)
    kill(first)
    second = Spool(tmp_path, MIB, Counters())
    assert drain(second) == list(range(10))
    second.close()


def test_what_is_not_in_memory_is_read_from_disk(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MIB, Counters(), memory_bytes=250)
    filled(spool, 100)
    assert drain(spool, most=9) == list(range(100))
    spool.close()


def test_a_torn_tail_ends_its_segment_and_nothing_else(tmp_path: Path) -> None:
    first = Spool(tmp_path, MIB, Counters())
    filled(first, 5)
    kill(first)
    (segment,) = tmp_path.glob("*.spool")
    os.truncate(segment, segment.stat().st_size - 3)
    counters = Counters()
    second = Spool(tmp_path, MIB, counters)
    assert second.append("events", "n1", b"new") == 4
    assert drain(second) == [0, 1, 2, 3, 4]
    assert counters.totals() == {}
    second.close()


def test_damage_in_the_middle_costs_the_rest_of_its_segment_and_is_counted(tmp_path: Path) -> None:
    first = Spool(tmp_path, 16 * 4096, Counters())
    filled(first, 100)
    kill(first)
    segments = sorted(tmp_path.glob("*.spool"))
    assert len(segments) > 2
    with segments[0].open("r+b") as file:
        file.seek(250)
        file.write(b"\xff\xff\xff\xff\xff\xff")
    counters = Counters()
    second = Spool(tmp_path, 16 * 4096, counters)
    found = drain(second)
    lost = int(segments[1].stem) - found.index(int(segments[1].stem))
    assert found == [*range(found.index(int(segments[1].stem))), *range(int(segments[1].stem), 100)]
    assert counters.totals() == {"dropped{spool_unreadable}": lost}
    assert drain(second) == []
    second.close()


def test_a_full_spool_gives_up_the_oldest_and_counts_them(tmp_path: Path) -> None:
    counters = Counters()
    spool = Spool(tmp_path, 16 * 4096, counters)
    filled(spool, 2000)
    assert spool.disk_bytes <= 16 * 4096
    dropped = counters.totals()["dropped{spool_full}"]
    assert drain(spool) == list(range(int(dropped), 2000))
    spool.close()


def test_delivered_segments_leave_the_disk(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 16 * 4096, Counters())
    filled(spool, 300)
    drain(spool)
    assert len(list(tmp_path.glob("*.spool"))) == 1
    assert spool.disk_bytes <= 2 * 4096
    spool.close()
    after = Spool(tmp_path, 16 * 4096, Counters())
    assert list(tmp_path.glob("*.spool")) == []
    assert after.append("events", "n1", b"x") == 300
    after.close()


class FullDisk:
    """A disk that takes `free` bytes more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 10**9
        real = Path.open
        disk = self

        class File:
            def __init__(self, path: Path) -> None:
                self.raw = real(path, "wb", buffering=0)

            def write(self, data: bytes) -> int:
                taken = min(len(data), disk.free)
                disk.free -= taken
                self.raw.write(data[:taken])
                if taken < len(data) and not taken:
                    raise OSError(28, "No space left on device")
                return taken

            def close(self) -> None:
                self.raw.close()

        def open_(path: Path, mode: str = "r", *more: int, **named: int) -> object:
            return File(path) if mode == "wb" and path.suffix == ".spool" else real(path, mode, *more, **named)  # type: ignore[call-overload]

        monkeypatch.setattr(Path, "open", open_)


def test_a_full_disk_is_counted_and_memory_carries_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, counters = FullDisk(monkeypatch), Counters()
    spool = Spool(tmp_path, MIB, counters)
    filled(spool, 3)
    disk.free = 50  # the next entry is torn, those after it are refused
    filled(spool, 4)
    disk.free = 10**9
    filled(spool, 3)
    assert counters.totals() == {"errors{spool_write}": 4}
    assert drain(spool) == list(range(10))
    spool.close()


def test_what_a_full_disk_and_a_full_memory_cannot_hold_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, counters = FullDisk(monkeypatch), Counters()
    spool = Spool(tmp_path, MIB, counters, memory_bytes=500)
    filled(spool, 3)
    disk.free = 0
    filled(spool, 20)
    disk.free = 10**9
    filled(spool, 10)
    entries, _ = spool.read(0, 100)
    numbers = [entry.number for entry in entries]
    assert numbers == [0, 1, 2, *range(23, 33)]
    spool.read(0, 100)
    assert counters.totals() == {"errors{spool_write}": 20, "dropped{spool_unreadable}": 20}
    spool.close()


def test_a_disk_that_never_takes_anything_still_delivers_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch)
    disk.free = 0
    spool = Spool(tmp_path, MIB, Counters())
    filled(spool, 5)
    assert drain(spool) == [0, 1, 2, 3, 4]
    assert list(tmp_path.glob("*.spool")) == []
    spool.close()


@pytest.mark.parametrize("garbage", [b"", b"-1", b"9" * 40, b"\xff\xfe", b"12 34"])
def test_a_position_that_is_garbage_sends_again_what_is_there(tmp_path: Path, garbage: bytes) -> None:
    first = Spool(tmp_path, MIB, Counters())
    filled(first, 5)
    first.confirm(2)
    first.close()
    (tmp_path / "position").write_bytes(garbage)
    again = Spool(tmp_path, MIB, Counters())
    if garbage == b"9" * 40:  # a number, if an odd one: nothing is taken for lost
        assert again.read(0, 10)[0] == []
    else:
        assert drain(again) == [0, 1, 2, 3, 4]
    again.close()


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.spool").write_text("not a segment")
    spool = Spool(tmp_path, MIB, Counters())
    filled(spool, 2)
    assert drain(spool) == [0, 1]
    spool.close()
    assert (tmp_path / "notes.spool").exists()


class Life:
    """Accepts, delivers and dies at random; the model is what a broker would have."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.received: list[bytes] = []
        self.accepted: list[bytes] = []

    def live(self) -> None:
        """One process: some accepts, reads and confirmations, then it is killed, with its last write torn or not."""
        rnd = self.random
        spool = Spool(self.folder, 64 * 4096, Counters(), memory_bytes=rnd.choice((200, 100_000)))
        at = spool.delivered
        for _ in range(rnd.randrange(1, 40)):
            what = rnd.random()
            if what < 0.5:
                value = b"%d:" % len(self.accepted) + b"x" * rnd.randrange(200)
                self.accepted.append(value)
                spool.append("events", "n1", value)
            elif what < 0.8:
                entries, at = spool.read(at, rnd.randrange(1, 6))
                self.received += [entry.value for entry in entries]
                if rnd.random() < 0.7:
                    spool.confirm(at)
                else:
                    at = spool.delivered  # the broker failed: from the oldest on
            else:
                spool.save()
        if rnd.random() < 0.3:
            spool.close()
            return
        kill(spool)
        if rnd.random() < 0.5:  # killed while it wrote: a part of an entry that nobody was promised
            last = max(self.folder.glob("*.spool"), default=None)
            if last is not None:
                with last.open("ab") as file:
                    file.write(b"\x40\x00\x00\x00\x12\x34half an entry"[: rnd.randrange(1, 19)])

    def end(self) -> None:
        spool = Spool(self.folder, 64 * 4096, Counters())
        at = spool.delivered
        while True:
            entries, at = spool.read(at, 50)
            if not entries:
                break
            self.received += [entry.value for entry in entries]
            spool.confirm(at)
        spool.close()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_at_whatever_point_it_dies_every_accepted_entry_arrives_once_or_again_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    life = Life(tmp_path_factory.mktemp("spool"), seed)
    for _ in range(6):
        life.live()
    life.end()
    first_time = list(dict.fromkeys(life.received))
    assert first_time == life.accepted  # none lost; the first time each one comes, in the order of acceptance


def test_run_ids_rise_for_ever(tmp_path: Path) -> None:
    now_ms = 1_764_504_000_000
    first = next_run_id(tmp_path, now_ms)
    assert first == 1_764_504_000
    assert next_run_id(tmp_path, now_ms) == first + 1
    assert next_run_id(tmp_path, now_ms - 86_400_000) == first + 2  # the clock went back a day
    assert next_run_id(tmp_path, now_ms + 60_000) == first + 60


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"-5", b"\xff\x00", b"9" * 30, b"1.5"])
def test_a_run_id_file_that_is_garbage_starts_from_the_clock(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "run_id").write_bytes(garbage)
    assert next_run_id(tmp_path, 1_764_504_000_000) == 1_764_504_000


def test_a_run_id_that_cannot_be_kept_still_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_whole", full)
    assert next_run_id(tmp_path, 1_764_504_000_000) == 1_764_504_000


def test_a_folder_that_cannot_be_written_still_delivers_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Path.open

    def read_only(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if tmp_path in self.parents and set(mode) & set("wax+"):
            raise OSError(30, "Read-only file system")
        return ours(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", read_only)
    counters = Counters()
    spool = Spool(tmp_path, MIB, counters)
    filled(spool, 5)
    assert drain(spool) == [0, 1, 2, 3, 4]
    assert counters.totals()["errors{spool_write}"] == 5
    spool.close()
