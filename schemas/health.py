"""The pipeline watching itself: self-counters of every process, and what could not be decoded."""

from schemas.record import Name, Natural, Record


class Health(Record, frozen=True, kw_only=True, tag="health"):
    """What one process counted since it started. `counters` maps "received", "sent", "dropped{reason}",
    "errors{code}" and the like to totals; `gauges` holds lag and age of the last event (seconds)."""

    topic = "health"

    process: Name
    instance: Name
    run_id: Natural
    seq: Natural
    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}
    note: str = ""

    @property
    def key(self) -> str:
        return f"{self.process}/{self.instance}"

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.process, self.instance, self.run_id, self.seq)


class DeadLetter(Record, frozen=True, kw_only=True, tag="dead_letter"):
    """A message that could not be used: where it lay, why, and its first bytes (at most 64 KiB)."""

    topic = "dead-letters"

    process: Name
    origin_topic: Name
    origin_partition: Natural
    origin_offset: Natural
    reason: Name
    detail: str = ""
    payload: bytes = b""

    @property
    def key(self) -> str:
        return f"{self.origin_topic}/{self.origin_partition}"

    @property
    def identity(self) -> tuple[str | int, ...]:
        return (self.cluster, self.process, self.origin_topic, self.origin_partition, self.origin_offset)
