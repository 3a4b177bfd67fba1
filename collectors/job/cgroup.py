"""What a process's control group says of it: a Slurm job, a Kubernetes pod. Every user may read it.

Slurm names groups "job_71/step_0" (v1 under /slurm/uid_N, v2 under a slurmstepd scope); Kubernetes "podUID" (cgroupfs
driver) or "...-podUID.slice" with underscores (systemd driver). In a namespace of its own a container shows only "/".
"""

import re
from typing import NamedTuple

_SLURM = re.compile(r"/job_(\d+)(?:/|$)")
_POD = re.compile(
    r"[/-]pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)"
)


class Place(NamedTuple):
    """Slurm's job number and the pod's uid; "" where the group names none."""

    slurm_job: str = ""
    pod: str = ""


NOWHERE = Place()


def parse_cgroup(text: str) -> Place:
    """/proc/PID/cgroup.

    >>> parse_cgroup("0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_3")
    Place(slurm_job='71', pod='')
    """
    paths = [line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2]
    slurm = next((found[1] for path in paths if "slurm" in path and (found := _SLURM.search(path))), "")
    pod = next((found[1] for path in paths if "kubepods" in path and (found := _POD.search(path))), "")
    return Place(slurm, pod.replace("_", "-"))
