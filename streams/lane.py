"""The order in which things become durable: outputs, then state, then findings, then the acknowledgement.

A lane is one partition of one agent. Outputs of many steps are on their way at once; everything else happens step by
step. So a state that is written implies that everything said before it has arrived, and a finding that arrives
implies that the state which knows of it is safe: a kill at any point neither loses nor doubles one.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, Protocol

from schemas.codec import encode
from schemas.record import Record
from streams.acknowledge import Token


class Write(NamedTuple):
    """One record of a changelog: `value` None deletes the key."""

    key: bytes
    value: bytes | None


class Step(NamedTuple):
    """What follows from the events of `tokens`, which are finished when all of it is durable.

    `outputs` may be sent again with the same identity after a restart and go out at once. `state` goes out when all
    before this step is durable; `findings` when `state` is.
    """

    tokens: Sequence[Token] = ()
    outputs: Sequence[Record] = ()
    state: Sequence[Write] = ()
    findings: Sequence[Record] = ()


class Send(Protocol):
    """Hands one message to the producer, waiting for room; what it returns resolves when the broker has it."""

    async def __call__(
        self, topic: str, key: bytes, value: bytes | None, partition: int | None
    ) -> Awaitable[object]: ...


class Lane:
    """Steps in order. `put` waits while `bound` steps are under way; `run` is the lane's one task."""

    def __init__(self, partition: int, changelog: str, send: Send, bound: int = 1000) -> None:
        self._partition, self._changelog, self._send = partition, changelog, send
        self._steps: asyncio.Queue[tuple[Step, list[Awaitable[object]]]] = asyncio.Queue(bound)
        self.turn = asyncio.Lock()
        """Held by whoever makes steps until they are put, so that steps line up in the order they were decided."""

    async def put(self, step: Step) -> None:
        """Send the outputs and line the step up. Only with `turn` held."""
        await self._steps.put((step, await self._records(step.outputs)))

    async def run(self) -> None:
        """Finish steps one after another, for ever; raises what a send raised."""
        while True:
            step, sent = await self._steps.get()
            await _all(sent)
            if step.state:
                await _all([await self._send(self._changelog, *write, self._partition) for write in step.state])
            if step.findings:
                await _all(await self._records(step.findings))
            for token in step.tokens:
                token.finish()
            self._steps.task_done()

    async def drained(self) -> None:
        """Return when every step put so far is finished."""
        await self._steps.join()

    async def _records(self, records: Sequence[Record]) -> list[Awaitable[object]]:
        return [await self._send(record.topic, record.key.encode(), encode(record), None) for record in records]


async def _all(sent: Sequence[Awaitable[object]]) -> None:
    for one in sent:
        await one
