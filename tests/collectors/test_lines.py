"""Growing files: each complete line once, whatever their writers do to them."""

import contextlib
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors import lines as module
from collectors.lines import FolderLines
from runtime.health import Counters


class Rig:
    def __init__(self, folder: Path, start: str = "beginning", **more: int) -> None:
        self.folder, self.counters = folder, Counters()
        self.source = FolderLines(folder, self.counters, "*.log", start, **more)  # type: ignore[arg-type]

    def write(self, name: str, data: bytes, mode: str = "ab") -> None:
        with (self.folder / name).open(mode) as file:
            file.write(data)

    def read(self) -> list[tuple[str, bytes]]:
        return self.source.read()


def test_new_complete_lines_only(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert rig.read() == []
    rig.write("a.log", b"one\ntw")
    rig.write("ignored.txt", b"other\n")
    assert rig.read() == [("a.log", b"one")]
    assert rig.read() == []
    rig.write("a.log", b"o\r\n\nthree\n")
    assert rig.read() == [("a.log", b"two"), ("a.log", b"three")]


def test_what_was_there_before_the_agent_is_history(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "end")
    rig.write("a.log", b"old\n")
    rig.write("torn.log", b"old ha")
    assert rig.read() == []
    rig.write("a.log", b"new\n")
    rig.write("torn.log", b"lf\nnew\n")
    rig.write("b.log", b"from its beginning\n")
    assert sorted(rig.read()) == [("a.log", b"new"), ("b.log", b"from its beginning"), ("torn.log", b"new")]


def test_a_folder_that_comes_later(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "later", "end")
    assert rig.read() == []
    (tmp_path / "later").mkdir()
    rig.write("a.log", b"new\n")
    assert rig.read() == [("a.log", b"new")]


def test_a_process_id_that_comes_back_truncates_its_file(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("host-pid7.log", b"first life\nhalf a li")
    rig.read()
    rig.write("host-pid7.log", b"new\n", "wb")
    assert rig.read() == [("host-pid7.log", b"new")]


def test_a_file_written_over_and_longer_than_before_is_begun_anew(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("host-pid7.log", b"first life\n")
    rig.read()
    rig.write("host-pid7.log", b"second life, and it is longer\n", "wb")
    assert rig.read() == [("host-pid7.log", b"second life, and it is longer")]


def test_a_rotated_file_is_read_to_its_end_before_the_new_one(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("a.log", b"one\n")
    rig.read()
    rig.write("a.log", b"two\n")
    (tmp_path / "a.log").rename(tmp_path / "a.log.1")
    rig.write("a.log", b"three\n")
    assert rig.read() == [("a.log", b"two"), ("a.log", b"three")]


def test_a_deleted_file_is_read_to_its_end_and_its_partial_line_counted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("a.log", b"one\n")
    rig.read()
    rig.write("a.log", b"two\nthr")
    (tmp_path / "a.log").unlink()
    assert rig.read() == [("a.log", b"two")]
    assert rig.counters.totals() == {"dropped{line_bytes_removed}": 3}


def test_reading_is_bounded_and_no_file_starves(tmp_path: Path) -> None:
    rig = Rig(tmp_path, tick_bytes=4000)
    rig.write("a.log", b"x" * 99 + b"\n", "ab")
    for name in ("a.log", "b.log"):
        rig.write(name, (b"y" * 99 + b"\n") * 1000)
    rig.write("c.log", b"small\n")
    first = rig.read()
    assert sum(len(line) + 1 for _, line in first) <= 4000
    assert ("c.log", b"small") in first
    assert {name for name, _ in first} == {"a.log", "b.log", "c.log"}
    assert rig.source.behind_bytes > 190_000
    total = len(first)
    for _ in range(60):
        total += len(rig.read())
    assert total == 2002
    assert rig.source.behind_bytes == 0


def test_a_reader_too_far_behind_goes_on_with_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BEHIND", 1000)
    rig = Rig(tmp_path)
    rig.write("a.log", b"".join(b"%09d\n" % i for i in range(1000)))
    found = rig.read()
    assert found[-1] == ("a.log", b"000000999")
    assert len(found) == 99
    assert rig.counters.totals() == {"dropped{line_bytes_behind}": 9000}


def test_an_endless_line_is_dropped_up_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_BYTES", 1000)
    rig = Rig(tmp_path)
    rig.write("a.log", b"x" * 5000)
    assert rig.read() == []
    rig.write("a.log", b"x" * 5000)
    assert rig.read() == []
    rig.write("a.log", b"x\nnext\n")
    assert rig.read() == [("a.log", b"next")]
    assert rig.counters.totals() == {"dropped{line_too_long}": 1}


def test_files_that_rest_hold_no_descriptor_and_go_on_when_they_grow(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for i in range(20):
        rig.write(f"{i}.log", b"one\n")
    assert len(rig.read()) == 20
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(module.IDLE_READS + 1):
        rig.read()
    assert len(os.listdir("/proc/self/fd")) == before - 20
    rig.write("7.log", b"two\n")
    assert rig.read() == [("7.log", b"two")]


def test_a_file_that_may_not_be_read_is_counted_and_the_others_go_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.write("a.log", b"one\n")
    (tmp_path / "b.log").symlink_to(tmp_path / "c")
    rig.write("c", b"two\n")
    real = os.open

    def refuse(path: str, *more: int) -> int:
        if str(path).endswith("b.log"):
            raise PermissionError(13, "Permission denied")
        return real(path, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert rig.read() == [("a.log", b"one")]
    assert rig.counters.totals()["errors{lines_unreadable}"] >= 1


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(
        st.binary(min_size=0, max_size=30).map(lambda b: b.replace(b"\n", b" ").replace(b"\r", b" ")), max_size=30
    ),
    cuts=st.lists(st.integers(0, 400), max_size=8),
    tick_bytes=st.integers(1, 200),
)
def test_however_a_file_grows_each_line_comes_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, data: list[bytes], cuts: list[int], tick_bytes: int
) -> None:
    rig = Rig(tmp_path_factory.mktemp("lines"), tick_bytes=tick_bytes)
    whole = b"".join(line + b"\n" for line in data)
    found: list[bytes] = []
    at = 0
    for cut in [*sorted(cuts), len(whole)]:
        if cut > at:
            rig.write("a.log", whole[at:cut])
            at = cut
        found += [line for _, line in rig.read()]
    for _ in range(len(whole) // tick_bytes + 2):
        found += [line for _, line in rig.read()]
    assert found == [line for line in data if line]
    assert rig.counters.totals() == {}


def test_of_many_files_that_rest_a_few_are_looked_at_in_turn_and_none_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_READS", 2)
    monkeypatch.setattr(module, "IDLE_LOOKS", 3)
    for number in range(10):
        (tmp_path / f"{number}.log").write_bytes(b"old\n")
    source = FolderLines(tmp_path, Counters())
    for _ in range(5):
        assert source.read() == []
    for number in range(10):
        with (tmp_path / f"{number}.log").open("ab") as file:
            file.write(b"new\n")
    (tmp_path / "late.log").write_bytes(b"fresh\n")
    first = source.read()
    assert ("late.log", b"fresh") in first
    assert len(first) == 4
    found = first + [line for _ in range(6) for line in source.read()]
    assert sorted(found) == sorted([(f"{n}.log", b"new") for n in range(10)] + [("late.log", b"fresh")])


class _Entry:
    """A directory's entry whose file is removed before anybody asks for its size."""

    def __init__(self, entry: os.DirEntry[str]) -> None:
        self._entry, self.name = entry, entry.name

    def is_file(self) -> bool:
        return self._entry.is_file()

    def inode(self) -> int:
        return self._entry.inode()

    def stat(self) -> os.stat_result:
        if self.name.startswith("gone"):
            raise FileNotFoundError(self.name)
        return self._entry.stat()


def test_a_file_removed_while_the_folder_is_read_costs_no_other_a_second_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path)
    rig.write("a.log", b"one\n")
    rig.write("gone.log", b"two\n")
    rig.write("z.log", b"three\n")
    assert len(rig.read()) == 3
    look = os.scandir
    with monkeypatch.context() as patch:
        patch.setattr(
            module.os,
            "scandir",
            lambda path: contextlib.nullcontext(map(_Entry, sorted(look(path), key=lambda e: e.name))),
        )
        assert rig.read() == []
    rig.write("z.log", b"four\n")
    assert ("z.log", b"four") in (lines := rig.read())
    assert ("z.log", b"three") not in lines
    assert ("a.log", b"one") not in lines


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EACCES, errno.EMFILE])
def test_a_folder_that_does_not_answer_for_a_while_is_not_read_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    rig = Rig(tmp_path)
    rig.write("a.log", b"one\n")
    assert rig.read() == [("a.log", b"one")]

    def fails(path: Path) -> object:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "scandir", fails)
        assert rig.read() == []
    rig.write("a.log", b"two\n")
    assert rig.read() == [("a.log", b"two")]
    assert rig.counters.totals()["errors{lines_unreadable}"] == 1


@pytest.mark.parametrize("name", ["two\nlines.log", "\udcff\udcfe.log", "\x1b[2J.log", "😀\u202e.log"])
def test_a_file_of_any_name_is_read(tmp_path: Path, name: str) -> None:
    rig = Rig(tmp_path)
    rig.write(name, b"one\n")
    assert rig.read() == [(name, b"one")]


def test_a_sparse_gigabyte_costs_a_bounded_read_and_what_follows_is_read(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with (tmp_path / "a.log").open("wb") as file:
        file.truncate(1 << 30)
    rig.write("a.log", b"\nafter\n")
    lines = [line for _ in range(20) for line in rig.read()]
    assert lines == [("a.log", b"after")]
    assert rig.source.behind_bytes == 0
    totals = rig.counters.totals()
    assert totals["dropped{line_bytes_behind}"] == (1 << 30) + 7 - module.MOST_BEHIND
