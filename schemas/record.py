"""The base of everything that travels: who sent it, when, and what makes it the same record again.

A record class declares four things once: its topic, its key, its identity and its fields. Bytes (`schemas.codec`),
table columns (`storage.tables`) and `docs/wire.md` follow from them.
"""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

Natural = Annotated[int, Meta(ge=0)]
"""A count, a number of a run or a sequence number: never negative."""

LAST_MS = 4_102_444_800_000
"""The year 2100."""

TimeMs = Annotated[int, Meta(ge=0, le=LAST_MS)]
"""Milliseconds since 1970-01-01 UTC, up to the year 2100: a clock that says more is broken, not early."""

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
"""A part of one: coverage, confidence, p-value."""

Name = Annotated[str, Meta(min_length=1, max_length=256)]
"""A non-empty identifier (cluster, node, job, UUID)."""


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """One message on a topic.

    Class attributes say where it belongs: `topic` and the schema `version` its bytes carry in field `v`.
    Fields may be added with a default without raising the version; a changed meaning raises it.
    """

    topic: ClassVar[str]
    version: ClassVar[int] = 1

    cluster: Name
    ts_ms: TimeMs
    v: Natural = 1

    @property
    def key(self) -> str:
        """The Kafka key: records of one key keep their order."""
        return self.cluster

    @property
    def identity(self) -> tuple[str | int, ...]:
        """What makes two copies of this record one row, however often it is sent again."""
        raise NotImplementedError


class NodeRecord(Record, frozen=True, kw_only=True):
    """A record stamped by a node's agent. `run_id` numbers the agent's starts and rises for ever; `seq` rises in a run.

    `ts_ms` is the tick the record belongs to. It is no part of the identity: a clock that steps back makes two rows.
    """

    node: Name
    run_id: Natural
    seq: Natural

    @property
    def key(self) -> str:
        return self.node

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.node, self.run_id, self.seq)
