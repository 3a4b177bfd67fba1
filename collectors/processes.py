"""For whom a process works: job and rank, read from its own environment and pinned for its life.

A process's job does not change, so its environment is read once, when it is first seen; a process id that comes back
with another start time is another process.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from schemas.jobkey import job_key

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Global rank, the launcher nearest to the training process first (torchrun under Slurm sets both)."""


class Work(NamedTuple):
    """One process's job and global rank (None where its launcher does not say)."""

    job: str
    rank: int | None


def parse_environ(raw: bytes) -> dict[str, str]:
    """/proc/PID/environ as a mapping.

    >>> parse_environ(b"RANK=3\\0PATH=/bin\\0")
    {'RANK': '3', 'PATH': '/bin'}
    """
    pairs = (item.partition("=") for item in raw.decode("utf-8", "replace").split("\0"))
    return {name: value for name, sign, value in pairs if sign}


def parse_start(stat: str) -> int:
    """When the process started, in clock ticks since boot: field 22 of /proc/PID/stat (its name may hold anything).

    >>> parse_start("7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8812 0")
    8812
    """
    return int(stat.rpartition(")")[2].split()[19])


def work_of(environment: Mapping[str, str], cluster: str = "") -> Work | None:
    """Job and rank told by a process's environment; None where it tells no job.

    >>> work_of({"MASTER_ADDR": "n1", "MASTER_PORT": "29500", "RANK": "5"})
    Work(job='master:n1:29500', rank=5)
    """
    job = job_key(environment, cluster=cluster)
    if job is None:
        return None
    said = next((environment[name] for name in RANK_VARIABLES if environment.get(name)), "")
    return Work(job, int(said) if said.isdecimal() else None)


class Processes:
    """Work by process id, over `proc` (the root of /proc)."""

    def __init__(self, proc: Path, cluster: str = "") -> None:
        self._proc, self._cluster = proc, cluster
        self._pinned: dict[int, tuple[int, Work | None]] = {}

    def alive(self, pid: int) -> bool:
        """Whether the process that was pinned (or any, if none was) still runs."""
        start = self._start(pid)
        return start is not None and (pid not in self._pinned or self._pinned[pid][0] == start)

    def work(self, pid: int) -> Work | None:
        """For whom the process works; None where it tells nothing, may not be read, or is gone."""
        start = self._start(pid)
        if start is None:
            self._pinned.pop(pid, None)
            return None
        pinned = self._pinned.get(pid)
        if pinned is None or pinned[0] != start:
            try:
                environment = parse_environ((self._proc / str(pid) / "environ").read_bytes())
            except OSError:
                return None  # asked again: it may only just be starting, or not be ours to read
            pinned = self._pinned[pid] = (start, work_of(environment, self._cluster))
        return pinned[1]

    def seen_as(self, pid: int, namespace: str) -> int | None:
        """Our number of the process that is `pid` in the pid namespace numbered `namespace`; None where there is none.

        A container numbers its processes for itself, and its 17 is not ours.
        """
        if namespace == self._namespace("self"):
            return pid
        for folder in self._proc.glob("[0-9]*"):
            if self._namespace(folder.name) == namespace and self._innermost(folder) == pid:
                return int(folder.name)
        return None

    def _namespace(self, process: str) -> str:
        try:
            return str((self._proc / process / "ns/pid").readlink()).partition("[")[2].rstrip("]")
        except OSError:
            return ""

    @staticmethod
    def _innermost(folder: Path) -> int | None:
        try:
            status = (folder / "status").read_text("utf-8", "replace")
        except OSError:
            return None
        line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
        return int(line.split()[-1]) if line.split()[1:] else None

    def _start(self, pid: int) -> int | None:
        try:
            return parse_start((self._proc / str(pid) / "stat").read_text("utf-8", "replace"))
        except (OSError, ValueError, IndexError):
            return None
