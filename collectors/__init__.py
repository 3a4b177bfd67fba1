"""What runs on every node: reads hardware, kernel and training processes, and sends records.

`COLLECTORS` names what an agent collects: a module with `on_node(node) -> Collector | None` (None: nothing to read
here, by the settings). Adding one is a file and a line. Named rather than imported, because the sampler process needs
only two of them, and each process counts against the agent's memory.
"""

COLLECTORS: dict[str, str] = {
    "gpu": "collectors.gpu",  # GPUs and their links, through the driver
    "jobs": "collectors.jobs",  # whose they are; what the node is made of
    "host": "collectors.host",  # CPUs, memory, disks
    "hwmon": "collectors.hwmon",  # the board's own sensors and fans
    "clock": "collectors.clock_sync",  # how well the clock is kept
    "ranks": "collectors.rank_states",  # how the training processes are
    "fabric": "collectors.fabric",  # InfiniBand and RoCE ports
    "kernel": "collectors.kmsg",  # XIDs, bus errors, processes killed
    "nccl": "collectors.collectives",  # collectives, from NCCL Inspector
    "flight": "collectors.flight_dumps",  # Flight Recorder dumps, when a job hangs
    "job_logs": "collectors.job_logs",  # watchdog and NCCL WARN lines
    "ras": "collectors.ras_poll",  # NCCL's RAS, when a job stands still
    "steps": "collectors.steps",  # training steps, from the processes themselves
    "redfish": "collectors.rack",  # a rack's cooling and power, from its management controllers
    "cooling": "collectors.cooling_bms",  # racks and coolant units, from the building
}
