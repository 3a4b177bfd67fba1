"""Whether a GPU has joined its NVSwitch fabric as its product should.

One product's health is another's fault: an H100 on an HGX board is healthy with clique 0 and a cluster of zeros, a
GB200 with the same answer has not joined its rack's NVLink domain. A card without a fabric is neither.
"""

import re
from collections.abc import Sequence
from typing import Any

from collectors.base import event
from collectors.rates import Value
from schemas.event import Event
from schemas.frame import Gpu

NOT_SUPPORTED, NOT_STARTED, IN_PROGRESS, COMPLETED = range(4)
"""Fabric state (nvml.h, nvmlGpuFabricState_t)."""

BOOT_GRACE_S = 300.0
"""A fabric takes minutes to come up after a boot (NVSentinel's fabric monitor waits as long)."""

UNHEALTHY, LIMITED = 2, 3
"""Health summary: 0 is "not told", 1 healthy (a GB200 in service may tell 0)."""

_MULTI_NODE = re.compile(r"\b(GB|VR)\d{3}\b")
"""Products whose NVLink domain spans a rack: a clique and a cluster belong to it."""

_TWO_BITS = {0: "bandwidth degraded", 2: "route recovery", 4: "route unhealthy", 6: "access timeout recovery"}
"""Shift in the health mask, and what it says where the two bits are 1 (true)."""

_CONFIGURATION_SHIFT = 8
_CONFIGURATION = {
    2: "wrong system GUID", 3: "wrong chassis serial number", 4: "no partition", 5: "insufficient NVLinks",
    6: "incompatible GPU firmware", 7: "invalid location", 8: "wrong GPU state",
}  # fmt: skip

_MANAGER_SHIFT, _DISCONNECTED = 14, 2


def mask_words(mask: int) -> tuple[str, ...]:
    """What a health mask complains of; empty where all is clear or nothing is told.

    >>> mask_words(0x1aa), mask_words(0x1a9), mask_words(0x5aa)
    ((), ('bandwidth degraded',), ('insufficient NVLinks',))
    """
    words = [text for shift, text in _TWO_BITS.items() if mask >> shift & 3 == 1]
    configuration = mask >> _CONFIGURATION_SHIFT & 0xF
    if configuration > 1:
        words.append(_CONFIGURATION.get(configuration, f"configuration {configuration}"))
    if mask >> _MANAGER_SHIFT & 3 == _DISCONNECTED:
        words.append("fabric manager disconnected")
    return tuple(words)


def fabric_faults(
    product: str,
    state: int,
    status: int,
    clique: int,
    cluster: Sequence[int],
    summary: int,
    mask: int,
    waiting_s: float,
) -> tuple[str, ...] | None:
    """What is wrong, in words; empty where healthy; None where it is not (or not yet) known.

    `status` is an nvmlReturn, valid once completed; `cluster` the bytes of its UUID; `waiting_s` how long the state has
    been short of completed.
    """
    if state == NOT_SUPPORTED:
        return None
    if state != COMPLETED:
        return (f"not joined after {waiting_s:.0f} s",) if waiting_s > BOOT_GRACE_S else None
    words = [] if status == 0 else [f"joined with error {status}"]
    words += mask_words(mask)
    if summary in (UNHEALTHY, LIMITED) and not words:
        words.append("unhealthy" if summary == UNHEALTHY else "limited capacity")
    if _MULTI_NODE.search(product) and not words and (clique == 0 or not any(cluster)):
        words.append("no clique of its NVLink domain")
    return tuple(words)


class FabricWatch:
    """The fabric of one GPU over time: `read` gives the columns, `news` an event where its health changed."""

    def __init__(self, product: str) -> None:
        self._product = product
        self._waiting_from_s: float | None = None
        self._faults: tuple[str, ...] = ()
        self._said: tuple[str, ...] = ()

    def read(self, info: Any, now: float) -> tuple[Value, Value]:
        """`fabric_state` and `fabric_fault` from nvmlDeviceGetGpuFabricInfoV's answer; `now` is monotonic."""
        state = int(info.state)
        if state in (NOT_STARTED, IN_PROGRESS):
            self._waiting_from_s = now if self._waiting_from_s is None else self._waiting_from_s
        else:
            self._waiting_from_s = None
        waiting_s = 0.0 if self._waiting_from_s is None else now - self._waiting_from_s
        faults = fabric_faults(
            self._product, state, int(info.status), int(info.cliqueId), bytes(info.clusterUuid),
            int(info.healthSummary), int(info.healthMask), waiting_s,
        )  # fmt: skip
        if faults is None:
            return (state, "pending") if state != NOT_SUPPORTED else ("unsupported", "unsupported")
        self._faults = faults
        return state, float(bool(faults))

    def news(self, gpu: Gpu) -> list[Event]:
        """One event when the GPU falls out of its fabric or for another reason, one when it is whole again."""
        if self._faults == self._said:
            return []
        self._said = self._faults
        words = ", ".join(self._faults)
        if not words:
            return [event("fabric_recovered", gpu=gpu.uuid, pci=gpu.pci, text="the GPU's NVLink fabric is whole again")]
        text = f"NVLink fabric: {words}"
        return [event("fabric_fault", severity="warning", gpu=gpu.uuid, pci=gpu.pci, text=text)]
