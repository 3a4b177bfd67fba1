"""The GPUs of a node over starts of the agent: missed when they vanish, forgotten in the end."""

from pathlib import Path

import numpy as np
import pytest
from fake_clock import FakeClock

from collectors.base import Reading
from collectors.gpu.known import FORGOTTEN_MS, KnownGpus
from runtime.health import Counters
from schemas.frame import Gpu
from schemas.matrix import Matrix

A, B = (Gpu(uuid=f"GPU-{name}", pci=f"0000:{n}b:00.0", slot=n) for n, name in enumerate("ab"))
PART = Gpu(uuid="MIG-1", pci=A.pci, parent=A.uuid)


def reading(*gpus: Gpu, lost: tuple[Gpu, ...] = ()) -> Reading:
    values = [[np.nan if gpu in lost else 400.0] for gpu in gpus]
    return Reading({"gpu": Matrix.of([gpu.uuid for gpu in gpus], ["power_w"], values)}, gpus)


class Rig:
    """An agent's folder, and what each start of the agent knows."""

    def __init__(self, folder: Path) -> None:
        self.path, self.clock, self.counters = folder / "gpus", FakeClock(), Counters()

    def start(self) -> KnownGpus:
        return KnownGpus(self.path, self.clock, self.counters)


def test_a_node_that_was_never_seen_knows_no_gpu_and_that_is_no_error(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert rig.start().load() == ()
    assert rig.counters.labelled() == {}


def test_gpus_are_known_at_the_next_start_and_mig_instances_are_not(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.start().note(reading(A, PART, B))
    assert rig.start().load() == (A, B)


def test_a_lost_gpu_stays_known_for_a_week(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.start().note(reading(A, B))
    for _ in range(8):
        again = rig.start()
        again.load()
        again.note(reading(A, B, lost=(B,)))
        rig.clock.advance(86_400 - 1)
    assert rig.start().load() == (A,)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_jumps_an_hour_forgets_nothing(tmp_path: Path, hours: int) -> None:
    rig = Rig(tmp_path)
    rig.start().note(reading(A))
    rig.clock.step(3600 * hours)
    assert rig.start().load() == (A,)


def test_a_gpu_that_is_no_longer_in_readings_is_forgotten(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    agent = rig.start()
    agent.note(reading(A, B))
    agent.note(reading(A))
    assert rig.start().load() == (A,)


def test_unchanged_gpus_are_written_once_an_hour(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    agent = rig.start()
    agent.note(reading(A))
    rig.path.unlink()
    agent.note(reading(A))
    assert not rig.path.exists()
    rig.clock.advance(3600)
    agent.note(reading(A))
    assert rig.start().load() == (A,)


@pytest.mark.parametrize(
    "rubbish", [b"", b"[", b"\xff", b"7", b'[{"uuid":"","pci":"","slot":0,"seen_ms":1}]', b"[" * 9999]
)
def test_rubbish_in_the_file_is_no_gpu(tmp_path: Path, rubbish: bytes) -> None:
    rig = Rig(tmp_path)
    rig.path.write_bytes(rubbish)
    assert rig.start().load() == ()


def test_a_folder_that_cannot_be_written_is_counted_and_stops_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "missing")
    rig.start().note(reading(A))
    assert rig.counters.labelled() == {("errors", "known_gpus_unwritable"): 1}


def test_a_week_is_counted_from_the_last_value(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.start().note(reading(A))
    rig.clock.advance(FORGOTTEN_MS / 1000)
    assert rig.start().load() == (A,)
    rig.clock.advance(1)
    assert rig.start().load() == ()
