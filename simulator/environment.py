"""What a rank finds in its environment: the launcher's and the scheduler's variables."""

from simulator.topology import GPUS_PER_TRAY, Topology


def environment(topology: Topology, cluster: str, rank: int) -> dict[str, str]:
    """Variables of torchrun under Slurm."""
    return {
        "SLURM_JOB_ID": topology.job_id,
        "SLURM_CLUSTER_NAME": cluster,
        "SLURM_RESTART_COUNT": "0",
        "SLURM_NNODES": str(topology.job_size // GPUS_PER_TRAY),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % GPUS_PER_TRAY),
        "WORLD_SIZE": str(topology.job_size),
        "MASTER_ADDR": topology.nodes[0],
        "MASTER_PORT": "29500",
    }
