"""The one name of a job that every node finds by itself.

Every rank of a job must come to the same answer from its own environment, so that all of a job's groups meet in one
partition. A communicator's own hash is the last resort: only the widest one of the process, never a narrower one.
"""

from collections.abc import Mapping

from schemas.collective import Communicator
from schemas.identity import digest


def job_key(
    environment: Mapping[str, str],
    pod_group_uid: str = "",
    communicators: tuple[Communicator, ...] = (),
    cluster: str = "",
) -> str | None:
    """The first of Slurm, Kubernetes, torchelastic, master address and widest communicator; None where nothing tells.

    `environment` is the rank's own (of /proc/PID/environ), `pod_group_uid` the Kubernetes owner's uid. The result is
    kept for the life of the process by the caller: a process's job does not change.

    >>> job_key({"SLURM_JOB_ID": "71", "SLURM_CLUSTER_NAME": "eos", "SLURM_RESTART_COUNT": "2"})
    'slurm:eos/71/2'
    >>> job_key({"SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3", "SLURM_JOB_ID": "74"}, cluster="eos")
    'slurm:eos/70_3/0'
    >>> job_key({"MASTER_ADDR": "n1", "MASTER_PORT": "29500"})
    'master:n1:29500'
    """
    key = _key(environment, pod_group_uid, communicators, cluster)
    if key is None or len(key) <= LONGEST:
        return key
    return f"{key[:KEPT]}~{digest(key, len(key))}"


LONGEST, KEPT = 256, 200
"""Letters of a name in a record (schemas.record.Name), and of those of a longer key that are kept before its digest."""


def _key(
    environment: Mapping[str, str], pod_group_uid: str, communicators: tuple[Communicator, ...], cluster: str
) -> str | None:
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    slurm = f"{array}_{task}" if array and task else environment.get("SLURM_JOB_ID")
    if slurm:
        where = environment.get("SLURM_CLUSTER_NAME") or cluster
        return f"slurm:{where}/{slurm}/{environment.get('SLURM_RESTART_COUNT') or 0}"
    if pod_group_uid:
        return f"k8s:{pod_group_uid}"
    run = environment.get("TORCHELASTIC_RUN_ID")
    if run and run != "none":
        return f"torchelastic:{run}"
    master = environment.get("MASTER_ADDR")
    if master and environment.get("MASTER_PORT"):
        return f"master:{master}:{environment['MASTER_PORT']}"
    if communicators:
        widest = max(communicators, key=lambda c: (c.size, c.id))
        return f"comm:{digest(widest.id, widest.size)}"
    return None
