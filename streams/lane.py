"""The order in which things become durable: outputs, then state, then findings, then the acknowledgement.

A lane is one partition of one agent. Outputs of many steps are on their way at once; everything else happens step by
step, or for several steps at once where that comes to the same. So a state that is written implies that everything said
before it has arrived, and a finding that arrives implies that the state which knows of it is safe: a kill at any point
neither loses nor doubles one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Sequence
from typing import NamedTuple, Protocol

from schemas.codec import encode
from schemas.record import Record
from streams.acknowledge import Token


class Key(NamedTuple):
    """What a state belongs to: a node, rack or job of a cluster by name, or "" the cluster in this partition."""

    cluster: str
    name: str


class Write(NamedTuple):
    """One record of a changelog: `value` None deletes the key."""

    key: bytes
    value: bytes | None


class Step(NamedTuple):
    """What follows from the events of `tokens`, which are finished when all of it is durable.

    `outputs` may be sent again with the same identity after a restart and go out at once. `state` goes out when all
    before this step is durable; `findings` when `state` is. `said_by` are the keys whose state can repeat the
    findings, each its own last ones.
    """

    tokens: Sequence[Token] = ()
    outputs: Sequence[Record] = ()
    state: Sequence[Write] = ()
    findings: Sequence[Record] = ()
    said_by: Sequence[Key] = ()


class Send(Protocol):
    """Hands one message to the producer, waiting for room; what it returns resolves when the broker has it."""

    async def __call__(
        self, topic: str, key: bytes, value: bytes | None, partition: int | None
    ) -> Awaitable[object]: ...


def together(steps: Iterable[Step]) -> int:
    """How many of the first `steps` can be finished at once, as one.

    States are written in their order, so those that say nothing go with any. A key that has said something must have
    been heard before its next state is written, because that repeats only what was said last.
    """
    said: set[Key] = set()
    count = 0
    for count, step in enumerate(steps, 1):
        if step.findings and not step.said_by:
            return max(1, count - 1)
        if not said.isdisjoint(step.said_by):
            return count - 1
        said.update(step.said_by)
    return count


class _Put(NamedTuple):
    step: Step
    sent: Sequence[Awaitable[object]]


class Lane:
    """Steps in order. `put` waits while `bound` steps are under way; `run` is the lane's one task.

    `send` serves outputs and may collect them; `send_now` serves what others wait for.
    """

    def __init__(self, partition: int, changelog: str, send: Send, send_now: Send, bound: int = 1000) -> None:
        self._partition, self._changelog = partition, changelog
        self._send, self._send_now = send, send_now
        self._line: deque[_Put] = deque()
        self._room = asyncio.Semaphore(bound)
        self._more, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self.turn = asyncio.Lock()
        """Held by whoever makes steps until they are put, so that steps line up in the order they were decided."""

    async def put(self, step: Step) -> None:
        """Send the outputs and line the step up. Only with `turn` held."""
        await self._room.acquire()
        self._idle.clear()
        self._line.append(_Put(step, await _send_all(self._send, step.outputs)))
        self._more.set()

    async def run(self) -> None:
        """Finish steps one after another, for ever; raises what a send raised."""
        while True:
            while not self._line:
                self._more.clear()
                await self._more.wait()
            puts = [self._line.popleft() for _ in range(together(put.step for put in self._line))]
            await self._finish(puts)
            for _ in puts:
                self._room.release()
            if not self._line:
                self._idle.set()

    async def drained(self) -> None:
        """Return when every step put so far is finished."""
        await self._idle.wait()

    async def _finish(self, puts: Sequence[_Put]) -> None:
        for put in puts:
            await _arrived(put.sent)
        writes = [write for put in puts for write in put.step.state]
        await _arrived([await self._send_now(self._changelog, *write, self._partition) for write in writes])
        await _arrived(await _send_all(self._send_now, [record for put in puts for record in put.step.findings]))
        for put in puts:
            for token in put.step.tokens:
                token.finish()


async def _send_all(send: Send, records: Sequence[Record]) -> list[Awaitable[object]]:
    return [await send(record.topic, record.key.encode(), encode(record), None) for record in records]


async def _arrived(sent: Sequence[Awaitable[object]]) -> None:
    for one in sent:
        await one
