"""Who stands in a node's frame: the same from tick to tick, and so looked at only when it is not."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from detectors.condition import Index
from schemas.frame import Gpu


class Crew(NamedTuple):
    """The GPUs of one job: their places in the roster, and their UUIDs."""

    job: str
    places: Index
    uuids: tuple[str, ...]


class Roster(NamedTuple):
    """`listed` and `rows` as the frame has them. `gpus` are all of them by `uuids`: those listed, then those with
    readings only. `place` is where each row of readings belongs; `crews` are in the frame's order."""

    listed: tuple[Gpu, ...]
    rows: tuple[str, ...]
    uuids: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    place: Index
    crews: tuple[Crew, ...]

    def is_of(self, listed: tuple[Gpu, ...], rows: tuple[str, ...]) -> bool:
        """Whether a frame with these has this roster."""
        return (listed is self.listed or listed == self.listed) and (rows is self.rows or rows == self.rows)


def roster_of(listed: tuple[Gpu, ...], rows: tuple[str, ...]) -> Roster:
    """The roster of a frame that lists these GPUs and has readings of `rows`."""
    known = {gpu.uuid: gpu for gpu in listed}
    uuids = tuple(dict.fromkeys([*known, *rows]))
    gpus = tuple(known.get(uuid) or Gpu(uuid=uuid) for uuid in uuids)
    at = {uuid: i for i, uuid in enumerate(uuids)}
    return Roster(listed, rows, uuids, gpus, _places([at[uuid] for uuid in rows]), _crews(gpus))


def is_instance(uuid: str) -> bool:
    """Whether it is a MIG instance, a part of a GPU; a dcgm-exporter names it by its GPU: "UUID/gi7"."""
    return uuid.startswith("MIG-") or "/" in uuid


def _crews(gpus: Sequence[Gpu]) -> tuple[Crew, ...]:
    jobs: dict[str, list[int]] = {}
    for place, gpu in enumerate(gpus):
        jobs.setdefault(gpu.job, []).append(place)
    return tuple(Crew(job, _places(own), tuple(gpus[i].uuid for i in own)) for job, own in jobs.items())


def _places(places: Sequence[int]) -> Index:
    return np.array(places, dtype=np.intp)


NOBODY = roster_of((), ())
