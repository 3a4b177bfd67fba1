"""The GPUs that a node has had, kept over starts of the agent: one that vanished while no agent ran is missed too.

A small file in the agent's folder: JSON, a list of GPUs and when each was last readable. A GPU that is gone for good is
missed for a week; whoever took it out deletes the file to be heard sooner. One whose place another GPU has taken is
forgotten at once (`collectors.gpu.collector`).
"""

from pathlib import Path

import msgspec
import numpy as np

from collectors.base import Reading
from runtime.clock import Clock
from runtime.health import Counters
from schemas.frame import Gpu

FORGOTTEN_MS = 7 * 86_400_000
"""A repair takes days; what has not come back after a week was taken out."""

KEEP_MS = 3_600_000
"""From one writing of unchanged GPUs to the next."""

MOST_BYTES = 1 << 20
MOST_GPUS = 1024


class Seen(msgspec.Struct, frozen=True):
    """A GPU, and the last tick in which it gave a value."""

    uuid: str
    pci: str
    slot: int
    seen_ms: int


class KnownGpus:
    """The file at `path`; what cannot be read or written is counted, and then there is no memory."""

    def __init__(self, path: Path, clock: Clock, counters: Counters) -> None:
        self._path, self._clock, self._counters = path, clock, counters
        self._seen: dict[str, Seen] = {}
        self._noted: tuple[Gpu, ...] | None = None
        self._kept_ms = 0

    def load(self) -> tuple[Gpu, ...]:
        """The GPUs of earlier starts; none where there is no file, or rubbish in it."""
        try:
            with self._path.open("rb") as file:
                listed = msgspec.json.decode(file.read(MOST_BYTES), type=list[Seen])
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._counters.add("errors", label="known_gpus_unreadable")
            return ()
        now_ms = self._clock.now_ms()
        for seen in listed[:MOST_GPUS]:
            # A clock that went back makes nothing old.
            if seen.uuid and 0 <= seen.slot < MOST_GPUS and now_ms - seen.seen_ms <= FORGOTTEN_MS:
                self._seen.setdefault(seen.uuid, seen)
        return tuple(Gpu(uuid=seen.uuid, pci=seen.pci, slot=seen.slot) for seen in self._seen.values())

    def note(self, reading: Reading) -> None:
        """Remember the GPUs of a reading: at once where they changed, else every hour."""
        now_ms = self._clock.now_ms()
        if reading.gpus == self._noted and abs(now_ms - self._kept_ms) < KEEP_MS:
            return
        self._noted, self._kept_ms = reading.gpus, now_ms
        matrix = reading.sections.get("gpu")
        alive = set()
        if matrix is not None:
            alive = {matrix.rows[i] for i in np.flatnonzero(~np.isnan(matrix.values()).all(axis=1)).tolist()}
        whole = [gpu for gpu in reading.gpus if not gpu.parent]
        now = {gpu.uuid: Seen(gpu.uuid, gpu.pci, gpu.slot, now_ms) for gpu in whole}
        self._seen = {
            uuid: seen if uuid in alive or uuid not in self._seen else self._seen[uuid] for uuid, seen in now.items()
        }
        fresh = self._path.with_name(f".{self._path.name}")
        try:  # not forced to disk: no tick waits for that
            fresh.write_bytes(msgspec.json.encode(list(self._seen.values())))
            fresh.replace(self._path)
        except OSError:
            self._counters.add("errors", label="known_gpus_unwritable")
