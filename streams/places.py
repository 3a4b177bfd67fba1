"""Which rack every node is in, read from the inventory topic by every worker for itself.

A rack's cooling explains the heat of its nodes, whose partitions may be other workers'; inventory is small, so each
worker reads all of it, without a group and without acknowledging anything.
"""

from collections.abc import Collection

import aiokafka

from schemas import Inventory
from schemas.codec import WireError, decode

TOPIC = Inventory.topic


class Places:
    """The newest inventory of every node, by cluster and name."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, Inventory]] = {}
        self._versions: dict[str, int] = {}

    def version(self, cluster: str) -> int:
        """Rises with everything learned of the cluster."""
        return self._versions.get(cluster, 0)

    def nodes(self, cluster: str) -> Collection[Inventory]:
        return self._nodes.get(cluster, {}).values()

    def take(self, payload: bytes | None) -> None:
        """One record of the topic; what is none tells no place (streams does not own this topic: no dead letter)."""
        try:
            record = decode(payload or b"", TOPIC)
        except WireError:
            return
        if isinstance(record, Inventory):
            self._nodes.setdefault(record.cluster, {})[record.node] = record
            self._versions[record.cluster] = self.version(record.cluster) + 1

    async def follow(self, consumer: aiokafka.AIOKafkaConsumer) -> None:
        """Take all records, for ever; `consumer` reads the topic without a group."""
        await consumer.start()
        try:
            async for message in consumer:
                self.take(message.value)
        finally:
            await consumer.stop()
