"""Settings of a worker."""

from typing import Annotated

from msgspec import Meta

from runtime.groups import WORKER
from runtime.settings import Connection, Positive, PrometheusPort


class WorkerSettings(Connection, frozen=True, kw_only=True):
    """One worker: start up to as many as there are partitions, each with a slot of its own."""

    slot: Annotated[
        int, Meta(ge=0, le=9999, description="Which of the workers this is; it is back at once after a kill")
    ] = 0
    group: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$", description="Consumer group")] = WORKER
    model_path: Annotated[str, Meta(description="Forest model to use instead of the built-in one")] = ""
    findings_per_10k_gpu_days: Annotated[
        Positive, Meta(description="Alarms that may be false: at most so many in 10,000 days of one GPU")
    ] = 1000.0
    prometheus_port: PrometheusPort = 0
    commit_interval_s: Annotated[Positive, Meta(description="Seconds between commits")] = 1.0
    checkpoint_s: Annotated[Positive, Meta(description="Seconds of event time between checkpoints of learning")] = 60.0
    health_interval_s: Annotated[Positive, Meta(description="Seconds between health records")] = 10.0


def instance(settings: WorkerSettings) -> str:
    """The worker's name among the workers of its group."""
    return f"{settings.group}-{settings.slot}"
