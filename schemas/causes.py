"""The vocabulary of verdicts, one spelling everywhere: findings, `--fault`, runbooks and SQL."""

from typing import Literal, NamedTuple

Kind = Literal["straggler", "hang", "slow_link", "hardware", "cooling", "imbalance", "degradation"]

Scope = Literal["rank", "gpu", "link", "node", "rack", "group", "stage", "job", "cluster"]

Team = Literal["hardware", "network", "facilities", "job owner", "operations"]

Cause = Literal[
    "gpu_degraded", "gpu_contention", "memory_bandwidth", "thermal_throttle", "power_brake", "gpu_memory_error",
    "gpu_lost",
    "pcie_degraded", "nvlink_fault", "fabric_link", "fabric_congestion",
    "host_cpu", "host_memory", "host_io", "data_loading", "python_stall", "allocator_stall", "sporadic_stall",
    "process_gone", "node_lost",
    "work_imbalance", "sequence_imbalance", "stage_imbalance", "collective_configuration", "workload_change",
    "not_entered", "gpu_stuck", "collective_mismatch", "communicator_deadlock", "transport_stalled",
    "leak", "coolant_flow", "coolant_temperature", "pump_fan",
    "sensor_fault", "clock_wrong", "pipeline", "unknown",
]  # fmt: skip


class CauseFacts(NamedTuple):
    """What a reader of an incident needs to know of a cause: in words, who acts on it, and how."""

    words: str
    team: Team
    action: str


CAUSES: dict[Cause, CauseFacts] = {
    "gpu_degraded": CauseFacts(
        "GPU computes slower than its own past at equal clocks and load", "hardware",
        "Drain the node, run a GEMM check on this GPU, replace it if it stays slow.",
    ),
    "gpu_contention": CauseFacts(
        "another process computes on the GPU", "job owner", "Find and end the foreign process on this GPU.",
    ),
    "memory_bandwidth": CauseFacts(
        "GPU memory is slower than its own past", "hardware", "Drain the node and run a memory bandwidth check.",
    ),
    "thermal_throttle": CauseFacts(
        "GPU lowers its clock because it is hot", "facilities",
        "Check coolant flow and cold plate of this tray; drain the node if it goes on.",
    ),
    "power_brake": CauseFacts(
        "power brake or power limit holds the clock down", "facilities",
        "Check power shelf, cables and power limits of this node.",
    ),
    "gpu_memory_error": CauseFacts(
        "GPU memory errors", "hardware", "Drain the node, reset the GPU, replace it if rows cannot be remapped.",
    ),
    "gpu_lost": CauseFacts("GPU fell off the bus", "hardware", "Drain and power-cycle the node, then inspect the GPU."),
    "pcie_degraded": CauseFacts(
        "PCIe link is narrower or slower than it should be, or replays", "hardware",
        "Drain the node, reseat or replace the part at this PCI address.",
    ),
    "nvlink_fault": CauseFacts(
        "NVLink errors or a lost link", "hardware", "Drain the node; check cable cartridge, switch tray and GPU.",
    ),
    "fabric_link": CauseFacts(
        "a network port is down, slow or full of errors", "network", "Check cable, transceiver and switch port.",
    ),
    "fabric_congestion": CauseFacts(
        "the network is congested", "network", "Look for the flows that share the congested switch.",
    ),
    "host_cpu": CauseFacts(
        "the host's CPUs are busy with something else", "operations", "Find the process that takes the CPUs.",
    ),
    "host_memory": CauseFacts(
        "the host is short of memory", "operations", "Find the process that takes the memory.",
    ),
    "host_io": CauseFacts("the host waits for storage", "operations", "Check the node's disks and file systems."),
    "data_loading": CauseFacts(
        "the data loader is late", "job owner", "Check the loader and storage of this rank.",
    ),
    "python_stall": CauseFacts(
        "the training process stalls outside the GPU (garbage collection, lock)", "job owner",
        "Profile the process; plan garbage collection.",
    ),
    "allocator_stall": CauseFacts(
        "the GPU memory allocator stalls", "job owner", "Look at allocator statistics and fragmentation.",
    ),
    "sporadic_stall": CauseFacts(
        "isolated slow steps without a steady cause", "job owner", "Watch; profile the rank if it goes on.",
    ),
    "process_gone": CauseFacts(
        "a training process ended", "job owner", "Read the rank's own log; restart the job.",
    ),
    "node_lost": CauseFacts("a node no longer answers", "operations", "Check the node's console and power."),
    "work_imbalance": CauseFacts(
        "one rank has more work than its peers", "job owner", "Balance the work; the hardware is fine.",
    ),
    "sequence_imbalance": CauseFacts(
        "sequence lengths differ between ranks", "job owner", "Balance sequence lengths; the hardware is fine.",
    ),
    "stage_imbalance": CauseFacts(
        "pipeline stages have unequal work", "job owner", "Move layers between stages; the hardware is fine.",
    ),
    "collective_configuration": CauseFacts(
        "collectives run with an unfit algorithm or setting", "job owner", "Compare NCCL settings with a good run.",
    ),
    "workload_change": CauseFacts(
        "all ranks slowed together with their work", "job owner", "Compare the workload with the time before.",
    ),
    "not_entered": CauseFacts(
        "a rank has not entered the collective that its peers wait in", "job owner",
        "Look at this rank's stack; restart the job without its node if the process is stuck.",
    ),
    "gpu_stuck": CauseFacts(
        "the collective was entered and does not end on this GPU", "hardware",
        "Restart the job without this node and check the GPU.",
    ),
    "collective_mismatch": CauseFacts(
        "ranks called different collectives or sizes", "job owner", "Compare the code paths of the named ranks.",
    ),
    "communicator_deadlock": CauseFacts(
        "communicators wait for each other", "job owner", "Order the collectives of the named communicators.",
    ),
    "transport_stalled": CauseFacts(
        "the transport of a collective stopped", "network", "Check the links between the named nodes.",
    ),
    "leak": CauseFacts("coolant leak", "facilities", "Act on the leak at once: shut the valve, power down the tray."),
    "coolant_flow": CauseFacts("coolant flow is too low", "facilities", "Check valves, filters and pumps of the loop."),
    "coolant_temperature": CauseFacts(
        "coolant is too warm", "facilities", "Check the heat exchanger and the facility's water.",
    ),
    "pump_fan": CauseFacts("a pump or fan fails", "facilities", "Replace the pump or fan."),
    "sensor_fault": CauseFacts("a sensor tells nonsense or nothing", "operations", "Check the sensor, not the part."),
    "clock_wrong": CauseFacts("a node's clock is wrong", "operations", "Check the node's time synchronisation."),
    "pipeline": CauseFacts("the telemetry pipeline itself has trouble", "operations", "Run `lockstep doctor`."),
    "unknown": CauseFacts("the cause is not known", "operations", "Look at the evidence."),
}  # fmt: skip
