"""What runs on every node: reads hardware, kernel and training processes, and sends records.

`COLLECTORS` names what an agent collects: a module with `on_node(node) -> Collector | None` (None: nothing to read
here, by the settings). Adding one is a file and a line. Named rather than imported, because the sampler process needs
only two of them, and each process counts against the agent's memory.
"""

COLLECTORS: dict[str, str] = {
    "gpu": "collectors.gpu.collector",  # GPUs and their links, through the driver
    "jobs": "collectors.job.jobs",  # whose they are; what the node is made of
    "host": "collectors.host.collector",  # CPUs, memory, disks
    "hwmon": "collectors.host.hwmon",  # the board's own sensors and fans
    "clock": "collectors.host.clock_sync",  # how well the clock is kept
    "ranks": "collectors.host.rank_states",  # how the training processes are
    "fabric": "collectors.host.fabric",  # InfiniBand and RoCE ports
    "kernel": "collectors.kernel.kmsg",  # XIDs, bus errors, processes killed
    "nccl": "collectors.nccl.collectives",  # collectives, from NCCL Inspector
    "flight": "collectors.nccl.flight_dumps",  # Flight Recorder dumps, when a job hangs
    "job_logs": "collectors.nccl.job_logs",  # watchdog and NCCL WARN lines
    "ras": "collectors.nccl.ras_poll",  # NCCL's RAS, when a job stands still
    "steps": "collectors.job.steps",  # training steps, from the processes themselves
    "redfish": "collectors.cooling.collector",  # a rack's cooling and power, from its management controllers
    "cooling": "collectors.cooling.bms",  # racks and coolant units, from the building
}
