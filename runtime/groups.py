"""Who reads what: the consumer groups of the product and their topics.

The embedded broker forgets old records, so whoever writes to it waits for these readers. A worker reads inventory
and models as well, but for itself, without the group.
"""

WORKER = "lockstep-worker"
WRITER = "lockstep-writer"
ALERTS = "lockstep-alerts"

READS: dict[str, tuple[str, ...]] = {
    WORKER: (
        "node-frames",
        "events",
        "collectives",
        "steps",
        "features",
        "rack-frames",
        "findings",
    ),
    WRITER: (
        "node-frames",
        "events",
        "collectives",
        "steps",
        "features",
        "rack-frames",
        "inventory",
        "findings",
        "incidents",
        "models",
        "control",
        "alert-state",
        "health",
        "dead-letters",
    ),
    ALERTS: ("incidents",),
}
