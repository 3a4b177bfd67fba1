"""Topics: partitions, retention, and which share a partitioner.

`collectives`, `steps` and `features` are read together by job, so they have one partition count and Kafka's default
partitioner (murmur2 of the key). A compacted topic keeps the newest record of each key for ever.
"""

from typing import NamedTuple

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

JOB_TOPICS = ("collectives", "steps", "features")
"""Read together by one worker: they must be co-partitioned."""


class Topic(NamedTuple):
    """One topic: `key` names what its records are keyed by, `retention_ms` None means compacted."""

    name: str
    key: str
    retention_ms: int | None
    why: str


TOPICS = {
    topic.name: topic
    for topic in (
        Topic("node-frames", "node", DAY_MS, "what every node measured, tick by tick"),
        Topic("events", "node", 7 * DAY_MS, "what happened at a moment"),
        Topic("collectives", "job", 6 * HOUR_MS, "NCCL operations per rank"),
        Topic("steps", "job", DAY_MS, "training steps per rank"),
        Topic("features", "job, or node for GPUs without one", DAY_MS, "scores and baselines per GPU"),
        Topic("rack-frames", "rack", 7 * DAY_MS, "cooling, leaks and power per rack"),
        Topic("inventory", "node", None, "what a node is made of"),
        Topic("findings", "cluster", 7 * DAY_MS, "verdicts of detectors"),
        Topic("incidents", "cluster", 30 * DAY_MS, "incidents, revision by revision"),
        Topic("models", "model name", None, "forest models"),
        Topic("control", "node", None, "what agents should do"),
        Topic("alert-state", "receiver and incident, or silence", None, "the alerter's outbox, and silences"),
        Topic("health", "process and instance", 3 * DAY_MS, "self-counters of every process"),
        Topic("dead-letters", "origin topic and partition", 30 * DAY_MS, "what could not be used, and why"),
    )
}
