"""Which GPU a rank uses, as its environment says: for where the driver does not name the processes of a GPU.

CUDA numbers what CUDA_VISIBLE_DEVICES lists, a container numbers what it was given, Slurm what it constrained; a rank
takes the device of its local rank, or the only one. Indices are the driver's order (CUDA's own order is another only
on nodes with different GPUs). Where two readings are possible there is no answer.
"""

from collections.abc import Mapping, Sequence

from collectors.digits import whole

LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""A process with none of these may be no user of GPUs at all."""

CONSTRAINED = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


def gpu_of(environment: Mapping[str, str], gpus: Sequence[str], known: Sequence[str] = ()) -> str | None:
    """The UUID of the rank's GPU, None where the environment does not settle it.

    `gpus` are the node's UUIDs in the driver's order, `known` further ones (MIG instances).

    >>> gpu_of({"LOCAL_RANK": "1"}, ["GPU-a", "GPU-b"])
    'GPU-b'
    >>> gpu_of({"CUDA_VISIBLE_DEVICES": "1", "LOCAL_RANK": "0"}, ["GPU-a", "GPU-b"])
    'GPU-b'
    """
    here = _given(environment, gpus)
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    entries = [str(index) for index in range(len(here))] if listed is None else _valid(listed)
    place = 0 if len(entries) == 1 else _local_rank(environment)
    if place is None or place >= len(entries):
        return None
    entry = entries[place]
    index = whole(entry)
    if index is None:
        return _named(entry, [*gpus, *known])
    if listed is not None and len(here) == len(gpus):
        physical = _physical(entries, place, _constrained(environment))
        return gpus[physical] if physical is not None and physical < len(gpus) else None
    return here[index] if index < len(here) else None


def _given(environment: Mapping[str, str], gpus: Sequence[str]) -> list[str]:
    """The GPUs that a container was given, in the driver's order; all where it was not restricted."""
    told = environment.get("NVIDIA_VISIBLE_DEVICES", "all")
    if told in ("all", "", "void", "none"):
        return list(gpus)
    given = set()
    for entry in told.split(","):
        entry = entry.strip().partition("::")[0]  # a shared GPU's replica
        index = whole(entry)
        given.add(gpus[index] if index is not None and index < len(gpus) else _named(entry, gpus))
    return [gpu for gpu in gpus if gpu in given]


def _valid(listed: str) -> list[str]:
    """CUDA's reading: entries up to the first that is none."""
    entries: list[str] = []
    for entry in (entry.strip() for entry in listed.split(",")):
        if whole(entry) is None and not entry.startswith(("GPU-", "MIG-")):
            break
        entries.append(entry)
    return entries


def _named(entry: str, uuids: Sequence[str]) -> str | None:
    """A UUID may be cut short while it stays one GPU's."""
    if entry in uuids:
        return entry
    found = [uuid for uuid in uuids if uuid.startswith(entry)] if entry.startswith("GPU-") and len(entry) > 4 else []
    return found[0] if len(found) == 1 else None


def _constrained(environment: Mapping[str, str]) -> list[int]:
    told = next((environment[name] for name in CONSTRAINED if environment.get(name)), "")
    entries = told.split(",")
    numbers = [whole(entry) for entry in entries]
    return [number for number in numbers if number is not None] if None not in numbers else []


def _physical(entries: Sequence[str], place: int, slurm: Sequence[int]) -> int | None:
    """The driver's index of an entry. Slurm that constrains devices numbers a job's GPUs anew from 0."""
    entry = int(entries[place])
    numbers = [number for e in entries if (number := whole(e)) is not None]
    if not slurm or list(slurm) == numbers:
        return entry
    direct, anew = set(numbers) <= set(slurm), all(number < len(slurm) for number in numbers)
    if direct and anew and slurm[entry] != entry:
        return None
    return entry if direct else slurm[entry] if anew else None


def _local_rank(environment: Mapping[str, str]) -> int | None:
    told = next((environment[name] for name in LOCAL_RANKS if environment.get(name)), "")
    return whole(told)
