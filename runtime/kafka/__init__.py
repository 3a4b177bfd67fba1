"""The Kafka client of every process but the Faust workers. The only package that imports kafka-python."""

import logging

from runtime.kafka.admin import create_topics, wait_for_broker
from runtime.kafka.client import MAX_MESSAGE_BYTES, Message, session_s, tls
from runtime.kafka.consumer import Consumer, read_topic
from runtime.kafka.offsets import Offsets, Partition
from runtime.kafka.producer import BufferFull, NotDelivered, Producer

__all__ = [
    "MAX_MESSAGE_BYTES",
    "BufferFull",
    "Consumer",
    "Message",
    "NotDelivered",
    "Offsets",
    "Partition",
    "Producer",
    "create_topics",
    "read_topic",
    "session_s",
    "tls",
    "wait_for_broker",
]

# kafka-python logs an error at every attempt to reconnect; what matters is said once, by us.
logging.getLogger("kafka").setLevel(logging.CRITICAL)
