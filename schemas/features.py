"""What detection says of each GPU in a tick: scores and baselines."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from schemas.matrix import Matrix
from schemas.record import Name, Natural, NodeRecord, Share


class GpuScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is said of one GPU in one tick, but for the numbers in matrices. `score` in [0, 1] (isolation forest, 0.5 is
    ordinary), `p_value` its calibrated tail.

    `strongest` names the metrics that made the score, most first. `recent` lists recent event kinds with their age
    ("xid:79@3s").
    """

    uuid: Name
    pci: str = ""
    rank: Natural | None = None
    score: float = float("nan")
    p_value: Share | None = None
    strongest: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()


class GpuFeatures(GpuScore, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU of `Features` by itself, with its rows of the matrices as maps by metric; what is NaN there is not in
    them. No message: for those few that a verdict is about."""

    z: dict[str, float] = {}
    readings: dict[str, float] = {}
    centres: dict[str, float] = {}


_NOTHING = Matrix((), (), b"")
_SCORE = GpuScore.__struct_fields__


class Features(NodeRecord, frozen=True, kw_only=True, tag="features"):
    """The GPUs of one node and one job (`job` "" for GPUs without one) in one tick.

    `z` holds the conditions that a cause is read from (robust z against the GPU's own baseline), `readings` the values
    and `centres` the baselines they were compared with: rows are UUIDs in the order of `gpus`, columns metric names.
    `run_id`, `seq` and `ts_ms` are the node frame's own. `host` holds host readings a cause may need.
    """

    topic = "features"

    job: str = ""
    model: str = ""
    rack: str = ""
    gpus: tuple[GpuScore, ...] = ()
    z: Matrix = _NOTHING
    readings: Matrix = _NOTHING
    centres: Matrix = _NOTHING
    host: dict[str, float] = {}

    def __post_init__(self) -> None:
        for matrix in (self.z, self.readings, self.centres):
            if matrix.columns and len(matrix.rows) != len(self.gpus):
                raise ValueError(f"a matrix of {len(matrix.rows)} rows for {len(self.gpus)} GPUs")

    @classmethod
    def of(cls, gpus: Sequence[GpuFeatures], **fields: Any) -> Self:
        """The record of these GPUs; `fields` are all the others."""
        uuids = [gpu.uuid for gpu in gpus]
        return cls(
            gpus=tuple(GpuScore(**{name: getattr(gpu, name) for name in _SCORE}) for gpu in gpus),
            z=_matrix(uuids, [gpu.z for gpu in gpus]),
            readings=_matrix(uuids, [gpu.readings for gpu in gpus]),
            centres=_matrix(uuids, [gpu.centres for gpu in gpus]),
            **fields,
        )

    def gpu(self, place: int) -> GpuFeatures:
        """The GPU at `place` in `gpus` with its numbers."""
        score = self.gpus[place]
        return GpuFeatures(
            z=self.z.row(place),
            readings=self.readings.row(place),
            centres=self.centres.row(place),
            **{name: getattr(score, name) for name in _SCORE},
        )

    @property
    def key(self) -> str:
        return self.job or self.node

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.node, self.run_id, self.seq, self.job)


def _matrix(rows: Sequence[str], maps: Sequence[Mapping[str, float]]) -> Matrix:
    columns = list(dict.fromkeys(name for values in maps for name in values))
    if not columns:
        return _NOTHING
    return Matrix.of(rows, columns, [[values.get(name, float("nan")) for name in columns] for values in maps])


class Baselines(NodeRecord, frozen=True, kw_only=True, tag="baselines"):
    """The rolling baselines of a node's GPUs, once a minute of event time: rows are UUIDs, columns metric names."""

    topic = "features"

    centre: Matrix
    spread: Matrix
