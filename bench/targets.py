"""How soon a fault is to be said, from its onset to the page; what the matrix's figures are held against."""

STRAGGLERS = (
    "gpu_degraded", "gpu_contention", "memory_bandwidth", "thermal_throttle", "power_brake", "pcie_degraded",
    "host_cpu", "host_memory", "host_io", "data_loading", "python_stall", "allocator_stall",
)  # fmt: skip
"""A rank or node that is slow. Not in it: stalls in one of twenty steps, which no test can know in eight."""

HANGS = ("gpu_memory_error", "gpu_lost", "process_gone", "node_lost", "not_entered", "gpu_stuck", "transport_stalled")
"""Causes after which a job stands still. Readings, process state or XID tell of each in the simulator."""

SHORT_STEP_S = 0.5
STRAGGLER_S, STRAGGLER_STEPS = 5.0, 8
HANG_S, HANG_STEPS, HANG_MORE_S = 10.0, 10, 5.0
RANK_S, RANK_BY_RAS_S = 15.0, 45.0
"""The rank of a hang, where phases, process state, XID or power tell it, and where only NCCL RAS does."""


def target_s(cause: str, step_s: float) -> float | None:
    """From the onset to the page: of a straggler 5 s, of a job's standstill 10 s, at steps up to half a second; of
    longer steps 8 of them, and 10 of them and 5 s. None where no target is set."""
    if cause in STRAGGLERS:
        return STRAGGLER_S if step_s <= SHORT_STEP_S else STRAGGLER_STEPS * step_s
    if cause in HANGS:
        return HANG_S if step_s <= SHORT_STEP_S else HANG_STEPS * step_s + HANG_MORE_S
    return None
