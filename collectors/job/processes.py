"""For whom a process works: job and rank, read from its own environment and pinned for its life.

A process's job does not change, so its environment is read once, when it is first seen; a process id that comes back
with another start time is another process. Where the environment may not be read, its control group still tells the
job.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from collectors.digits import count_of, whole
from collectors.host.kernel_files import content, process_ids
from collectors.job.cgroup import NOWHERE, Place, parse_cgroup
from collectors.job.devices import CONSTRAINED, LOCAL_RANKS
from schemas.jobkey import job_key

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""Global rank, the launcher nearest to the training process first (torchrun under Slurm sets both)."""

MOST_RANKS = 1 << 24
"""A rank from here on is none: the largest jobs have some hundred thousand."""

_RANK_SIGNS = tuple(f"{name}=".encode() for name in RANK_VARIABLES)

POD_GROUP = "LOCKSTEP_POD_GROUP_UID"
"""Set in a pod by the downward API, from a label that all pods of a job share and pods of no other job."""

WORLDS = (("WORLD_SIZE", "LOCAL_WORLD_SIZE"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"))

KEPT = (*RANK_VARIABLES, *LOCAL_RANKS, *CONSTRAINED, "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""What is remembered of an environment: which rank on which GPU. The rest may be large, or secret."""

Reason = Literal["pid_unseen", "job_hidden", "job_untold"]
"""No such process here (another pid namespace, or just ended); its environment may not be read; it names no job."""


class Work(NamedTuple):
    """One process's job and global rank (None where its launcher does not say)."""

    job: str
    rank: int | None


class _Pinned(NamedTuple):
    start: int
    work: Work | None
    environment: Mapping[str, str]


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
    return count_of(stat.rpartition(")")[2].split()[19])


def work_of(environment: Mapping[str, str], cluster: str = "", place: Place = NOWHERE) -> Work | None:
    """Job and rank told by a process's environment, else by its control group; None where neither tells a job.

    A pod's own uid is the job's only where all its ranks are in that pod: for a job of many pods it would be many.

    >>> work_of({"MASTER_ADDR": "n1", "MASTER_PORT": "29500", "RANK": "5"})
    Work(job='master:n1:29500', rank=5)
    """
    job = job_key(environment, environment.get(POD_GROUP, ""), cluster=cluster)
    if job is None and place.slurm_job:
        job = job_key({"SLURM_JOB_ID": place.slurm_job}, cluster=cluster)
    if job is None and place.pod and _alone(environment):
        job = job_key({}, place.pod)
    if job is None:
        return None
    said = next((environment[name] for name in RANK_VARIABLES if environment.get(name)), "")
    rank = whole(said)
    return Work(job, rank if rank is not None and rank < MOST_RANKS else None)


def _alone(environment: Mapping[str, str]) -> bool:
    """Whether all ranks of the process's job are on this node: as many in the world as here, or no ranks at all."""
    for world, here in WORLDS:
        if world in environment:
            return environment[world] == environment.get(here)
    return not any(environment.get(name) for name in RANK_VARIABLES)


class Processes:
    """Work by process id, over `proc` (the root of /proc)."""

    def __init__(self, proc: Path, cluster: str = "") -> None:
        self._proc, self._cluster = proc, cluster
        self._pinned: dict[int, _Pinned] = {}
        self._looked: dict[int, int] = {}

    def alive(self, pid: int) -> bool:
        """Whether the process that was pinned (or any, if none was) still runs."""
        start = self._start(pid)
        return start is not None and (pid not in self._pinned or self._pinned[pid].start == start)

    def work(self, pid: int) -> Work | None:
        """For whom the process works; None where it tells nothing, may not be read, or is gone."""
        told = self.told(pid)
        return told if isinstance(told, Work) else None

    def told(self, pid: int) -> Work | Reason:
        """For whom the process works, or why that is unknown."""
        start = self._start(pid)
        if start is None:
            self._pinned.pop(pid, None)
            return "pid_unseen"
        pinned = self._pinned.get(pid)
        if pinned is None or pinned.start != start:
            place = self._place(pid)
            try:
                environment = parse_environ(content(self._proc / f"{pid}/environ"))
            except OSError:  # asked again: it may only just be starting, or not be ours to read
                hidden = work_of({}, self._cluster, place._replace(pod=""))
                return hidden or "job_hidden"
            kept = {name: environment[name] for name in KEPT if name in environment}
            pinned = self._pinned[pid] = _Pinned(start, work_of(environment, self._cluster, place), kept)
        return pinned.work or "job_untold"

    def environment(self, pid: int) -> Mapping[str, str]:
        """What is remembered of the environment of a process whose work was asked for (KEPT); else empty."""
        pinned = self._pinned.get(pid)
        return pinned.environment if pinned is not None else {}

    def ranks(self) -> dict[int, Work]:
        """The processes here that say of themselves that they are ranks of jobs, one for each rank.

        Children inherit a rank's environment: the oldest process counts. A launcher is a task of Slurm, and not one of
        the ranks that it starts: of a job's processes those with the nearest of RANK_VARIABLES count. A process is
        looked at when it first shows and once more at the next call, because between fork and exec it still has its
        parent's environment.
        """
        here = self._ids()
        self._looked = {pid: count for pid, count in self._looked.items() if pid in here}
        for pid in here:
            looked = self._looked.get(pid, 0)
            if looked < 2:
                self._looked[pid] = looked + 1
                pinned = self._pinned.get(pid)
                if looked and pinned is not None and (pinned.work is None or pinned.work.rank is None):
                    del self._pinned[pid]
                if self._names_a_rank(pid):
                    self.told(pid)
        for pid in self._pinned.keys() - here:
            del self._pinned[pid]
        return self._one_each([pid for pid, told in self._pinned.items() if told.work and told.work.rank is not None])

    def _names_a_rank(self, pid: int) -> bool:
        """Whether its environment has one of RANK_VARIABLES, or something that ends like one: few processes have."""
        try:
            environment = content(f"{self._proc}/{pid}/environ")
        except OSError:
            return False
        return any(name in environment for name in _RANK_SIGNS)

    def _one_each(self, pids: list[int]) -> dict[int, Work]:
        nearest: dict[str, int] = {}
        found: list[tuple[str, int, int, int, Work]] = []
        for pid in pids:
            if isinstance(work := self.told(pid), Work) and work.rank is not None:
                pinned = self._pinned[pid]
                variable = next(i for i, name in enumerate(RANK_VARIABLES) if pinned.environment.get(name))
                nearest[work.job] = min(variable, nearest.get(work.job, variable))
                found.append((work.job, variable, pinned.start, pid, work))
        ranks: dict[Work, int] = {}
        for job, variable, _, pid, work in sorted(found):
            if variable == nearest[job]:
                ranks.setdefault(work, pid)
        return {pid: work for work, pid in ranks.items()}

    def seen_as(self, pid: int, namespace: str) -> int | None:
        """Our number of the process that is `pid` in the pid namespace numbered `namespace`; None where there is none.

        A container numbers its processes for itself, and its 17 is not ours.
        """
        if namespace == self._namespace("self"):
            return pid
        for ours in self._ids():
            if self._namespace(str(ours)) == namespace and self._innermost(ours) == pid:
                return ours
        return None

    def _ids(self) -> set[int]:
        """The processes here."""
        try:
            return process_ids(self._proc)
        except OSError:
            return set()

    def _namespace(self, process: str) -> str:
        try:
            return str((self._proc / process / "ns/pid").readlink()).partition("[")[2].rstrip("]")
        except OSError:
            return ""

    def _innermost(self, pid: int) -> int | None:
        try:
            status = content(self._proc / f"{pid}/status").decode("utf-8", "replace")
        except OSError:
            return None
        line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
        return int(line.split()[-1]) if line.split()[1:] else None

    def _place(self, pid: int) -> Place:
        try:
            return parse_cgroup(content(self._proc / f"{pid}/cgroup").decode("utf-8", "replace"))
        except OSError:
            return NOWHERE

    def _start(self, pid: int) -> int | None:
        try:
            return parse_start(content(self._proc / f"{pid}/stat").decode("utf-8", "replace"))
        except (OSError, ValueError, IndexError):
            return None
