"""Whose GPU it is: environments of processes, pinned for their lives."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from collectors.base import NoData, Reading
from collectors.jobs import JobsCollector
from collectors.processes import Processes, Work, work_of
from schemas.event import Event
from schemas.frame import Gpu
from schemas.inventory import GpuDescription, Inventory, JobMembership


class Gpus:
    """Stands in for the GPU collector."""

    driver = "580.95.05"

    def __init__(self, count: int = 2) -> None:
        self.pids: dict[str, tuple[int, ...]] = {f"GPU-{i}": () for i in range(count)}
        self.unreadable: set[str] = set()

    def processes(self) -> Mapping[str, tuple[int, ...]]:
        return {uuid: pids for uuid, pids in self.pids.items() if uuid not in self.unreadable}

    def descriptions(self) -> tuple[GpuDescription, ...]:
        return tuple(GpuDescription(uuid=uuid) for uuid in self.pids)


def process(proc: Path, pid: int, start: int = 100, name: str = "python", **environment: str) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} ({name}) S " + "1 " * 18 + f"{start} 0 0\n")
    (folder / "environ").write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in environment.items()) + b"\0")


def end(proc: Path, pid: int) -> None:
    for file in (proc / str(pid)).iterdir():
        file.unlink()
    (proc / str(pid)).rmdir()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (
            {"SLURM_JOB_ID": "71", "SLURM_CLUSTER_NAME": "eos", "SLURM_PROCID": "0", "RANK": "9"},
            Work("slurm:eos/71/0", 9),
        ),
        ({"SLURM_JOB_ID": "71", "SLURM_PROCID": "12"}, Work("slurm:c1/71/0", 12)),
        ({"MASTER_ADDR": "n1", "MASTER_PORT": "29500", "OMPI_COMM_WORLD_RANK": "3"}, Work("master:n1:29500", 3)),
        ({"MASTER_ADDR": "n1", "MASTER_PORT": "29500", "RANK": "three"}, Work("master:n1:29500", None)),
        ({"RANK": "3"}, None),
    ],
)
def test_work_is_told_by_the_environment(environment: dict[str, str], expected: Work | None) -> None:
    assert work_of(environment, "c1") == expected


def test_a_process_id_that_comes_back_is_another_process(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    process(tmp_path, 7, start=100, TORCHELASTIC_RUN_ID="a", RANK="1")
    assert processes.work(7) == Work("torchelastic:a", 1)
    process(tmp_path, 7, start=100, TORCHELASTIC_RUN_ID="changed", RANK="2")
    assert processes.work(7) == Work("torchelastic:a", 1)
    assert processes.alive(7)
    process(tmp_path, 7, start=200, TORCHELASTIC_RUN_ID="b", RANK="2")
    assert not processes.alive(7)
    assert processes.work(7) == Work("torchelastic:b", 2)


def test_names_of_processes_may_hold_anything(tmp_path: Path) -> None:
    process(tmp_path, 7, name="a) S 1 2 (b", TORCHELASTIC_RUN_ID="a", RANK="1")
    assert Processes(tmp_path).work(7) == Work("torchelastic:a", 1)


def test_who_may_not_be_read_or_is_gone_has_no_work(tmp_path: Path) -> None:
    process(tmp_path, 7, TORCHELASTIC_RUN_ID="a", RANK="1")
    (tmp_path / "7" / "environ").unlink()
    processes = Processes(tmp_path)
    assert processes.work(7) is None
    assert processes.work(8) is None
    assert not processes.alive(8)


class Rig:
    def __init__(self, proc: Path, count: int = 2) -> None:
        self.proc, self.gpus = proc, Gpus(count)
        self.collector = JobsCollector(self.gpus, Processes(proc))

    def collect(self, tick_ms: int = 0) -> Reading:
        return self.collector.collect(tick_ms)


def inventories(reading: Reading) -> list[Inventory]:
    return [draft for draft in reading.drafts if isinstance(draft, Inventory)]


def test_gpus_have_job_and_rank_of_their_process(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    process(tmp_path, 70, TORCHELASTIC_RUN_ID="a", RANK="4")
    process(tmp_path, 71, TORCHELASTIC_RUN_ID="a", RANK="5")
    rig.gpus.pids |= {"GPU-0": (70,), "GPU-1": (71,)}
    reading = rig.collect()
    assert reading.gpus == (
        Gpu(uuid="GPU-0", job="torchelastic:a", rank=4),
        Gpu(uuid="GPU-1", job="torchelastic:a", rank=5),
    )


def test_a_process_without_a_job_is_counted_and_claims_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    process(tmp_path, 70)
    rig.gpus.pids["GPU-0"] = (70,)
    reading = rig.collect()
    assert reading.gpus == ()
    assert reading.missing == {"no_job": 1}


def test_a_rank_that_nobody_told_is_not_rank_zero(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    process(tmp_path, 70, TORCHELASTIC_RUN_ID="a")
    rig.gpus.pids["GPU-0"] = (70,)
    reading = rig.collect()
    assert reading.gpus == (Gpu(uuid="GPU-0", job="torchelastic:a"),)
    assert inventories(reading)[0].memberships == ()


def test_the_inventory_is_sent_at_start_and_on_change_only(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    (first,) = inventories(rig.collect(1000))
    assert (first.driver, len(first.gpus), first.memberships) == ("580.95.05", 2, ())
    assert inventories(rig.collect(6000)) == []
    process(tmp_path, 70, TORCHELASTIC_RUN_ID="a", RANK="4")
    rig.gpus.pids["GPU-0"] = (70,)
    (second,) = inventories(rig.collect(11000))
    assert second.memberships == (JobMembership(job="torchelastic:a", rank=4, gpu="GPU-0", pid=70, since_ms=11000),)
    assert inventories(rig.collect(16000)) == []


def test_a_ranks_process_that_ends_is_an_event(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    process(tmp_path, 70, TORCHELASTIC_RUN_ID="a", RANK="4")
    rig.gpus.pids |= {"GPU-0": (70,), "GPU-1": (70,)}
    rig.collect()
    end(tmp_path, 70)
    rig.gpus.pids |= {"GPU-0": (), "GPU-1": ()}
    reading = rig.collect()
    (gone,) = [draft for draft in reading.drafts if isinstance(draft, Event)]
    assert (gone.kind, gone.job, gone.rank, gone.detail) == ("process_gone", "torchelastic:a", 4, {"pid": "70"})
    assert not [draft for draft in rig.collect().drafts if isinstance(draft, Event)]


def test_a_gpu_that_cannot_say_keeps_its_job_while_the_process_lives(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    process(tmp_path, 70, TORCHELASTIC_RUN_ID="a", RANK="4")
    rig.gpus.pids["GPU-0"] = (70,)
    rig.collect()
    rig.gpus.unreadable = {"GPU-0"}
    assert rig.collect().gpus == (Gpu(uuid="GPU-0", job="torchelastic:a", rank=4),)
    end(tmp_path, 70)
    assert rig.collect().gpus == ()


def test_no_gpu_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        Rig(tmp_path, count=0).collect()
