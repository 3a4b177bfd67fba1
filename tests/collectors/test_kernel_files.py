"""Files read again and again: what they hold now, whatever became of them meanwhile."""

from pathlib import Path

import numpy as np
import pytest

from collectors.host.kernel_files import CHUNK_BYTES, HeldFile, content, process_ids
from simulator.hostfs import Hosts
from simulator.topology import Topology


def test_a_file_of_several_pieces_comes_whole(tmp_path: Path) -> None:
    text = bytes(range(256)) * (CHUNK_BYTES // 100)
    (tmp_path / "file").write_bytes(text)
    assert content(tmp_path / "file") == text
    assert HeldFile(tmp_path / "file").read() == text


def test_a_table_that_the_kernel_gives_in_pages_comes_whole() -> None:
    maps = content("/proc/self/maps")
    assert len(maps) > 4096
    assert b"[stack]" in maps  # near the end


def test_a_held_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("one, and longer")
    held = HeldFile(path)
    assert held.read() == b"one, and longer"
    path.write_text("two")
    assert held.read() == b"two"
    (tmp_path / "other").write_text("three")
    (tmp_path / "other").rename(path)
    assert held.read() == b"three"


def test_a_held_file_that_is_removed_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    held = HeldFile(path)
    with pytest.raises(FileNotFoundError):
        held.read()
    path.write_text("one")
    assert held.read() == b"one"
    path.unlink()
    with pytest.raises(FileNotFoundError):
        held.read()
    path.write_text("two")
    assert held.read() == b"two"


def test_the_kernel_s_own_files_change_under_one_that_is_held() -> None:
    held = HeldFile(Path("/proc/self/status"))
    first = held.read()
    assert b"voluntary_ctxt_switches" in first
    grown = bytearray(32 << 20)
    assert held.read() != first
    assert grown


def test_a_simulated_node_is_asked_by_its_own_methods() -> None:
    topology = Topology(racks=1, trays=1, job_size=4, seed=7)
    proc = Hosts(topology, "eos", np.random.default_rng(7)).proc(0)
    assert process_ids(proc) == {topology.pid(rank) for rank in range(4)}
    assert content(proc / f"{topology.pid(0)}/stat").startswith(b"%d (python)" % topology.pid(0))
