"""Settings of a node's agent, and where its machine keeps what it reads."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from runtime.settings import Connection, Positive, PrometheusPort

URL = r"^$|^https?://(\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+)(:\d{1,5})?([/?]\S*)?$"
"""Nothing, or an address with a host in it, and without a password: it would stand in logs."""


class AgentSettings(Connection, frozen=True, kw_only=True):
    """Read from LOCKSTEP_* and the options of `lockstep agent`."""

    node: Annotated[str, Meta(max_length=256, description="This node's name; its host name if not given")] = ""
    rack: Annotated[str, Meta(max_length=256, description="The rack it stands in")] = ""
    tray: Annotated[int, Meta(ge=0, le=65_535, description="Its place in the rack")] | None = None
    cooling_loop: Annotated[
        str, Meta(max_length=256, description="The coolant unit that its rack hangs on, where one serves several racks")
    ] = ""
    interval_s: Annotated[Positive, Meta(le=3600, description="Seconds from tick to tick")] = 1.0
    collectors: Annotated[str, Meta(description="What to collect, separated by commas; all if not given")] = ""
    inspector_dir: Annotated[str, Meta(description="Folder of NCCL Inspector's files (NCCL_INSPECTOR_DUMP_DIR)")] = ""
    inspector_files: Annotated[
        str, Meta(min_length=1, description="Which of its files are this node's, in a folder that nodes share")
    ] = "*.log"
    flight_dir: Annotated[
        str, Meta(description="Folder where PyTorch's Flight Recorder dumps appear (TORCH_FR_DUMP_TEMP_FILE)")
    ] = ""
    job_log_dir: Annotated[str, Meta(description="Folder of the jobs' logs, for watchdog and NCCL WARN lines")] = ""
    job_log_files: Annotated[str, Meta(min_length=1, description="Which of its files are logs")] = "*"
    ras_address: Annotated[
        str, Meta(description="NCCL RAS services to ask when a job stands still (localhost:28028); off if not given")
    ] = ""
    steps_dir: Annotated[str, Meta(description="Folder of the training processes' step files (JSON lines)")] = ""
    steps_socket: Annotated[str, Meta(max_length=100, description="Unix socket for their step lines, made here")] = ""
    job_mapping_dir: Annotated[
        str, Meta(description="Folder where Slurm's prolog notes each GPU's job (DCGM_HPC_JOB_MAPPING_DIR)")
    ] = ""
    dcgm_url: Annotated[
        str, Meta(pattern=URL, description="Read GPUs from this dcgm-exporter (http://localhost:9400/metrics)")
    ] = ""
    bmc_targets: Annotated[
        str, Meta(description="File of the management controllers it polls (the rack role): docs/collectors/cooling.md")
    ] = ""
    bmc_interval_s: Annotated[float, Meta(ge=1, le=60, description="Seconds from poll to poll of a controller")] = 10.0
    bms_dir: Annotated[str, Meta(description="Folder where a bridge writes the building's cooling values")] = ""
    spool_dir: Annotated[str, Meta(min_length=1, description="What is not delivered yet lies here")] = (
        "/var/lib/lockstep/agent"
    )
    spool_mib: Annotated[Positive, Meta(description="The most of it; the oldest goes when it is full")] = 512.0
    prometheus_port: PrometheusPort = 0


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where a machine's own sources are; tests and the simulator give others.

    `driver` makes the collectors of the sampler process ("module:function", see `collectors.agent.sampled.Factory`).
    """

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    kmsg: Path = Path("/dev/kmsg")
    driver: str = "collectors.gpu.driver:collectors"
