"""Whose GPU it is: environments of processes, pinned for their lives."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from collectors.base import NoData, Reading
from collectors.job.cgroup import Place, parse_cgroup
from collectors.job.devices import gpu_of
from collectors.job.jobs import JobsCollector
from collectors.job.mapping import read_mapping
from collectors.job.processes import Processes, Work, work_of
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
        return tuple(GpuDescription(uuid=uuid, slot=i) for i, uuid in enumerate(self.pids) if "MIG" not in uuid)


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


UID = "0f2e1d3c-aaaa-bbbb-cccc-0123456789ab"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_3\n", Place("71")),
        ("0::/system.slice/node7_slurmstepd.scope/job_71/step_batch/user/task_0\n", Place("71")),
        ("5:devices:/slurm/uid_1000/job_71/step_0\n1:name=systemd:/system.slice/slurmd.service\n", Place("71")),
        (f"0::/kubepods/burstable/pod{UID}/8a1b\n", Place(pod=UID)),
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
            "/cri-containerd-8a1b.scope\n",
            Place(pod=UID),
        ),
        (f"11:cpu:/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/docker-8a.scope\n", Place(pod=UID)),
        ("0::/\n", Place()),
        ("0::/user.slice/user-1000.slice/job_71\n", Place()),
        (f"0::/home/pod{UID}\n", Place()),
        ("", Place()),
        ("no colons\n::\n", Place()),
    ],
)
def test_a_control_group_names_job_or_pod(text: str, place: Place) -> None:
    assert parse_cgroup(text) == place


@pytest.mark.parametrize(
    ("environment", "place", "expected"),
    [
        ({}, Place("71"), Work("slurm:c1/71/0", None)),
        ({"PMI_RANK": "3"}, Place("71"), Work("slurm:c1/71/0", 3)),
        ({"SLURM_JOB_ID": "70", "SLURM_PROCID": "1"}, Place("71"), Work("slurm:c1/70/0", 1)),
        ({"RANK": "5", "MASTER_ADDR": "n", "MASTER_PORT": "1"}, Place(pod=UID), Work("master:n:1", 5)),
        ({"RANK": "5", "LOCKSTEP_POD_GROUP_UID": "g"}, Place(pod=UID), Work("k8s:g", 5)),
        # A pod's uid is the job's only where no rank is elsewhere.
        ({"RANK": "5", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, Place(pod=UID), None),
        ({"RANK": "5", "WORLD_SIZE": "16"}, Place(pod=UID), None),
        ({"RANK": "5"}, Place(pod=UID), None),
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, Place(pod=UID), Work(f"k8s:{UID}", 5)),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"},
         Place(pod=UID), Work(f"k8s:{UID}", 1)),
        ({}, Place(pod=UID), Work(f"k8s:{UID}", None)),
        ({}, Place(), None),
    ],
)  # fmt: skip
def test_where_the_environment_names_no_job_the_control_group_may(
    environment: dict[str, str], place: Place, expected: Work | None
) -> None:
    assert work_of(environment, "c1", place) == expected


FOUR = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"]


@pytest.mark.parametrize(
    ("environment", "gpu"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 LOCAL_RANK=2", "GPU-bb33"),
        ("CUDA_VISIBLE_DEVICES=3 LOCAL_RANK=2", "GPU-cc44"),
        ("CUDA_VISIBLE_DEVICES=3,2,1,0 LOCAL_RANK=0", "GPU-cc44"),
        ("CUDA_VISIBLE_DEVICES=3,-1,1,0 LOCAL_RANK=0", "GPU-cc44"),
        ("CUDA_VISIBLE_DEVICES=3,-1,1,0 LOCAL_RANK=2", "GPU-cc44"),
        ("CUDA_VISIBLE_DEVICES=-1 LOCAL_RANK=0", None),
        ("CUDA_VISIBLE_DEVICES=NoDevFiles LOCAL_RANK=0", None),
        ("CUDA_VISIBLE_DEVICES= LOCAL_RANK=0", None),
        ("CUDA_VISIBLE_DEVICES=9 LOCAL_RANK=0", None),
        ("CUDA_VISIBLE_DEVICES=0,1 LOCAL_RANK=2", None),
        ("CUDA_VISIBLE_DEVICES=0,1", None),
        ("CUDA_VISIBLE_DEVICES=GPU-bb33,GPU-aa11 LOCAL_RANK=1", "GPU-aa11"),
        ("CUDA_VISIBLE_DEVICES=GPU-bb", "GPU-bb33"),
        ("CUDA_VISIBLE_DEVICES=GPU-aa", None),
        ("CUDA_VISIBLE_DEVICES=GPU-zz", None),
        ("CUDA_VISIBLE_DEVICES=GPU-", None),
        ("CUDA_VISIBLE_DEVICES=MIG-1234", "MIG-1234"),
        ("CUDA_VISIBLE_DEVICES=MIG-9999", None),
        ("CUDA_VISIBLE_DEVICES=MIG-GPU-aa11/3/0", "MIG-GPU-aa11/3/0"),
        ("SLURM_LOCALID=3", "GPU-cc44"),
        ("LOCAL_RANK=1 SLURM_LOCALID=0", "GPU-aa22"),
        ("OMPI_COMM_WORLD_LOCAL_RANK=one", None),
        # a container was given two, and numbers them anew in the driver's order
        ("NVIDIA_VISIBLE_DEVICES=GPU-cc44,GPU-aa22 LOCAL_RANK=0", "GPU-aa22"),
        ("NVIDIA_VISIBLE_DEVICES=GPU-cc44,GPU-aa22 CUDA_VISIBLE_DEVICES=0,1 LOCAL_RANK=1", "GPU-cc44"),
        ("NVIDIA_VISIBLE_DEVICES=3 LOCAL_RANK=0", "GPU-cc44"),
        ("NVIDIA_VISIBLE_DEVICES=GPU-cc44::3 LOCAL_RANK=0", "GPU-cc44"),
        ("NVIDIA_VISIBLE_DEVICES=all LOCAL_RANK=0", "GPU-aa11"),
        # Slurm that constrains devices numbers them anew; else the numbers are the node's
        ("SLURM_STEP_GPUS=2,3 CUDA_VISIBLE_DEVICES=0,1 LOCAL_RANK=1", "GPU-cc44"),
        ("SLURM_STEP_GPUS=2,3 CUDA_VISIBLE_DEVICES=2,3 LOCAL_RANK=1", "GPU-cc44"),
        ("SLURM_JOB_GPUS=0,1,2,3 CUDA_VISIBLE_DEVICES=1", "GPU-aa22"),
        ("SLURM_JOB_GPUS=1,2 CUDA_VISIBLE_DEVICES=1", None),
        ("SLURM_JOB_GPUS=a,b CUDA_VISIBLE_DEVICES=1", "GPU-aa22"),
    ],
)
def test_a_ranks_gpu_by_its_environment(environment: str, gpu: str | None) -> None:
    told = dict(pair.split("=", 1) for pair in environment.split())
    assert gpu_of(told, FOUR, ["MIG-1234", "MIG-GPU-aa11/3/0"]) == gpu


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
    assert processes.told(7) == "job_hidden"
    assert processes.told(8) == "pid_unseen"
    assert processes.work(7) is None
    assert processes.work(8) is None
    (tmp_path / "7" / "cgroup").write_text("0::/system.slice/slurmstepd.scope/job_71/step_0\n")
    assert processes.told(7) == Work("slurm:/71/0", None)
    (tmp_path / "7" / "cgroup").write_text(f"0::/kubepods/pod{UID}/8a\n")
    assert processes.told(7) == "job_hidden", "whether all its ranks are in this pod is not known"
    assert not processes.alive(8)


class Rig:
    def __init__(self, proc: Path, count: int = 2, mapping: Path | None = None) -> None:
        self.proc, self.gpus = proc, Gpus(count)
        self.collector = JobsCollector(self.gpus, Processes(proc), "c1", mapping)

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
    assert reading.missing == {"job_untold": 1}


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


def rank(proc: Path, pid: int, number: int, start: int = 100, **more: str) -> None:
    told = {
        "TORCHELASTIC_RUN_ID": "a",
        "RANK": str(number),
        "LOCAL_RANK": str(number % 4),
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
    }
    process(proc, pid, start, **(told | more))


def test_where_the_driver_names_no_process_the_ranks_say_which_gpu(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 4)
    for number in range(4, 8):
        rank(tmp_path, 70 + number, number)
    rig.gpus.pids["GPU-0"] = (9000,)  # a process of another pid namespace
    reading = rig.collect()
    assert [(gpu.uuid, gpu.rank) for gpu in reading.gpus] == [(f"GPU-{i}", 4 + i) for i in range(4)]
    assert reading.missing == {"pid_unseen": 1}
    assert [(m.rank, m.gpu, m.pid) for m in inventories(reading)[0].memberships] == [
        (4 + i, f"GPU-{i}", 74 + i) for i in range(4)
    ]
    end(tmp_path, 75)
    (gone,) = [draft for draft in rig.collect(5000).drafts if isinstance(draft, Event)]
    assert (gone.kind, gone.rank, gone.gpu) == ("process_gone", 5, "GPU-1")


def test_the_drivers_word_is_first(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 2)
    rank(tmp_path, 70, 0, CUDA_VISIBLE_DEVICES="1")
    rig.gpus.pids["GPU-0"] = (70,)
    assert rig.collect().gpus == (Gpu(uuid="GPU-0", job="torchelastic:a", rank=0),)


def test_two_ranks_that_claim_one_gpu_have_none(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 2)
    for number in (0, 1):
        rank(tmp_path, 70 + number, number, CUDA_VISIBLE_DEVICES="0")
    reading = rig.collect()
    assert reading.gpus == ()
    assert reading.missing == {"gpu_untold": 2}
    assert [(m.rank, m.gpu) for m in inventories(reading)[0].memberships] == [(0, ""), (1, "")]


def test_helpers_and_launchers_of_a_rank_are_not_further_ranks(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 4)
    slurm = {"SLURM_JOB_ID": "71", "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_JOB_GPUS": "0,1,2,3"}
    process(tmp_path, 60, 50, **slurm)  # torchrun, a task of Slurm
    for number in range(4, 8):
        process(tmp_path, 70 + number, 100, **slurm, RANK=str(number), LOCAL_RANK=str(number % 4))
        process(tmp_path, 170 + number, 150, **slurm, RANK=str(number), LOCAL_RANK=str(number % 4))  # a data loader
    members = inventories(rig.collect())[0].memberships
    assert [(m.rank, m.gpu, m.pid) for m in members] == [(4 + i, f"GPU-{i}", 74 + i) for i in range(4)]


def test_a_rank_without_a_word_of_gpus_claims_none(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    process(tmp_path, 70, TORCHELASTIC_RUN_ID="a", RANK="0", LOCAL_RANK="0")
    reading = rig.collect()
    assert (reading.gpus, reading.missing) == ((), {})


def test_between_fork_and_exec_a_process_is_not_what_it_will_be(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    process(tmp_path, 70, TORCHELASTIC_RUN_ID="launcher")
    assert processes.ranks() == {}
    rank(tmp_path, 70, 3)
    assert processes.ranks() == {70: Work("torchelastic:a", 3)}
    end(tmp_path, 70)
    assert processes.ranks() == {}


def test_what_slurms_prolog_noted_holds_where_no_process_is_seen(tmp_path: Path) -> None:
    mapping = tmp_path / "slurm"
    mapping.mkdir()
    for name, text in {"0": "71\n", "1": "71\n72\n", "2": " \n", "3": "73", "3.1": "9", "x": "9"}.items():
        (mapping / name).write_text(text)
    (mapping / "4").mkdir()
    rig = Rig(tmp_path / "proc", 4, mapping)
    process(tmp_path / "proc", 70, TORCHELASTIC_RUN_ID="a", RANK="1")
    rig.gpus.pids["GPU-3"] = (70,)
    assert rig.collect().gpus == (
        Gpu(uuid="GPU-3", job="torchelastic:a", rank=1),
        Gpu(uuid="GPU-0", job="slurm:c1/71/0"),
    )
    assert read_mapping(tmp_path / "none") == {}


def test_network_devices_are_part_of_the_inventory_and_a_new_one_makes_it_anew(tmp_path: Path) -> None:
    (tmp_path / "infiniband/mlx5_1").mkdir(parents=True)
    (tmp_path / "infiniband/mlx5_0").mkdir()
    collector = JobsCollector(Gpus(), Processes(tmp_path / "proc"), nics=tmp_path / "infiniband")
    assert inventories(collector.collect(0))[0].nics == ("mlx5_0", "mlx5_1")
    assert inventories(collector.collect(5000)) == []
    (tmp_path / "infiniband/mlx5_0").rmdir()
    assert inventories(collector.collect(10_000))[0].nics == ("mlx5_1",)


def test_nothing_secret_of_an_environment_is_remembered(tmp_path: Path) -> None:
    rank(tmp_path, 70, 1, AWS_SECRET_ACCESS_KEY="hunter2")
    processes = Processes(tmp_path)
    assert processes.work(70)
    assert "hunter2" not in repr(vars(processes))


def test_a_proc_that_vanishes_leaves_nobody_alive_and_raises_nothing(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "stat").write_text("7 (python) S " + " ".join(["1"] * 18) + " 500 0")
    (proc / "7" / "environ").write_bytes(b"SLURM_JOB_ID=9\0RANK=3\0")
    processes = Processes(proc)
    assert processes.work(7) is not None
    shutil.rmtree(proc)
    assert processes.told(7) == "pid_unseen"
    assert not processes.alive(7)
    assert processes.ranks() == {}
    assert processes.seen_as(7, "1") is None


@pytest.mark.parametrize("said", ["-1", "3.5", "²", "9" * 12, "9" * 5000])
def test_a_rank_that_no_job_has_is_none(said: str) -> None:
    assert work_of({"MASTER_ADDR": "n1", "MASTER_PORT": "1", "RANK": said}) == Work("master:n1:1", None)


def test_a_job_s_name_that_is_too_long_for_a_record_is_cut_and_stays_its_own() -> None:
    one, other = (work_of({"TORCHELASTIC_RUN_ID": "n" * 5000 + end}) for end in "ab")
    assert one is not None
    assert other is not None
    assert one != other
    assert len(one.job) < 256
    assert one.job.startswith("torchelastic:nnn")
