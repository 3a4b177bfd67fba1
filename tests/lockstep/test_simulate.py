"""The simulated fleet on a broker."""

import threading

from lockstep.progress import by_topic
from lockstep.simulate import run
from runtime.kafka import read_topic
from runtime.settings import Connection
from simulator.settings import FleetSettings


def test_the_totals_by_topic_are_what_the_broker_has(embedded: Connection) -> None:
    fleet = FleetSettings(racks=1, trays=1, job_size=4, ticks=3, speed=100.0)
    sent = run(fleet, embedded, threading.Event(), readers=())
    assert sent["node-frames"] == 3
    assert {topic: len(list(read_topic(embedded, topic))) for topic in sent} == dict(sent)
    assert by_topic(sent).startswith(f"sent {sum(sent.values())} records: ")
