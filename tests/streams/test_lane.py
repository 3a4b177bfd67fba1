"""A kill at any moment finds things durable in one order: outputs, state, findings, acknowledgement."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from schemas import Features, Finding, Record
from schemas.finding import Subject
from streams.acknowledge import Offsets, Token
from streams.lane import Key, Lane, Step, Write, together

N1, N2 = Key("c", "n1"), Key("c", "n2")


class SlowBroker:
    """Keeps every message until the test lets it arrive."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, asyncio.Future[None]]] = []
        self.arrived: list[str] = []

    async def send(self, topic: str, key: bytes, value: bytes | None, partition: int | None) -> Awaitable[object]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent.append((topic, future))
        return future

    async def arrive(self, topic: str) -> None:
        """Let the oldest waiting message of `topic` arrive, and everybody react."""
        index = next(i for i, (name, _) in enumerate(self.sent) if name == topic)
        _, future = self.sent.pop(index)
        self.arrived.append(topic)
        future.set_result(None)
        await settle()

    @property
    def waiting(self) -> list[str]:
        return [topic for topic, _ in self.sent]


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def features(seq: int) -> Features:
    return Features(cluster="c", ts_ms=1000 * seq, node="n1", run_id=1, seq=seq)


def finding(revision: int = 0) -> Finding:
    return Finding(
        cluster="c",
        ts_ms=1,
        id="f-1",
        revision=revision,
        detector="d",
        state="open",
        kind="hardware",
        cause="gpu_lost",
        subject=Subject(scope="node", node="n1"),
        onset_ms=1,
    )


def on_a_lane(scene: Callable[[Lane, SlowBroker, Offsets], Awaitable[Any]], bound: int = 10) -> None:
    async def play() -> None:
        broker, offsets = SlowBroker(), Offsets()
        lane = Lane(0, "changelog", broker.send, broker.send, bound)
        pump = asyncio.create_task(lane.run())
        try:
            await scene(lane, broker, offsets)
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    asyncio.run(play())


def step(
    offsets: Offsets, offset: int, *outputs: Record, state: bool = False, said: bool = False, by: Sequence[Key] = ()
) -> Step:
    offsets.take(offset)
    token = Token(offsets, "node-frames", 0, offset)
    return Step((token,), outputs, (Write(b"k", b"v"),) if state else (), (finding(),) if said else (), by)


def test_an_event_is_finished_only_when_its_outputs_have_arrived() -> None:
    async def scene(lane: Lane, broker: SlowBroker, offsets: Offsets) -> None:
        await lane.put(step(offsets, 0, features(1), features(2)))
        await broker.arrive("features")
        assert offsets.committable is None
        await broker.arrive("features")
        assert offsets.committable == 1

    on_a_lane(scene)


def test_state_waits_for_all_that_was_said_before_and_findings_wait_for_the_state() -> None:
    async def scene(lane: Lane, broker: SlowBroker, offsets: Offsets) -> None:
        await lane.put(step(offsets, 0, features(1)))
        await lane.put(step(offsets, 1, features(2), state=True, said=True, by=[N1]))
        await settle()
        assert broker.waiting == ["features", "features"]
        await broker.arrive("features")
        assert broker.waiting == ["features"]
        await broker.arrive("features")
        assert broker.waiting == ["changelog"]
        await broker.arrive("changelog")
        assert broker.waiting == ["findings"]
        assert offsets.committable is None
        await broker.arrive("findings")
        assert offsets.committable == 2

    on_a_lane(scene)


def test_what_may_be_finished_as_one() -> None:
    """All states may go together; of a key that has spoken nothing more before it was heard."""
    quiet, first, second, nameless = Step(), Step(said_by=[N1]), Step(said_by=[N2]), Step(findings=[finding()])
    assert together([quiet, quiet, quiet]) == 3
    assert together([quiet, first, quiet, second, quiet]) == 5
    assert together([first, second, quiet, first]) == 3
    assert together([first, first]) == 1
    assert together([nameless, quiet]) == 1
    assert together([quiet, nameless, quiet]) == 1


def test_states_of_many_steps_wait_for_the_broker_once() -> None:
    async def scene(lane: Lane, broker: SlowBroker, offsets: Offsets) -> None:
        await lane.put(step(offsets, 0, state=True))
        await settle()
        for n in range(1, 5):
            await lane.put(step(offsets, n, state=True))
        await settle()
        assert broker.waiting == ["changelog"]
        await broker.arrive("changelog")
        assert broker.waiting == ["changelog"] * 4
        for _ in range(4):
            await broker.arrive("changelog")
        assert offsets.committable == 5

    on_a_lane(scene)


def test_a_key_is_heard_before_it_may_speak_again() -> None:
    async def scene(lane: Lane, broker: SlowBroker, offsets: Offsets) -> None:
        for n in range(2):
            await lane.put(step(offsets, n, state=True, said=True, by=[N1]))
        await settle()
        for expected in ("changelog", "findings", "changelog", "findings"):
            assert broker.waiting == [expected]
            await broker.arrive(expected)
        assert offsets.committable == 2

    on_a_lane(scene)


def test_outputs_of_many_events_are_on_their_way_at_once() -> None:
    async def scene(lane: Lane, broker: SlowBroker, offsets: Offsets) -> None:
        for n in range(8):
            await lane.put(step(offsets, n, features(n)))
        assert len(broker.waiting) == 8

    on_a_lane(scene)


def test_steps_are_finished_in_the_order_they_were_put() -> None:
    async def scene(lane: Lane, broker: SlowBroker, offsets: Offsets) -> None:
        await lane.put(step(offsets, 0, features(1), state=True))
        await lane.put(step(offsets, 1))
        await settle()
        seen = [offsets.committable]
        await broker.arrive("features")
        await broker.arrive("changelog")
        await asyncio.wait_for(lane.drained(), 1)
        assert [*seen, offsets.committable] == [None, 2]

    on_a_lane(scene)


def test_the_number_of_steps_under_way_is_bounded() -> None:
    async def scene(lane: Lane, broker: SlowBroker, offsets: Offsets) -> None:
        for n in range(3):
            await lane.put(step(offsets, n, features(n), state=True, by=[N1]))
        late = asyncio.create_task(lane.put(step(offsets, 3)))
        await settle()
        before = late.done()
        await broker.arrive("features")
        await broker.arrive("changelog")
        assert (before, late.done()) == (False, True)

    on_a_lane(scene, bound=3)


def test_a_send_that_fails_ends_the_lane_and_finishes_nothing_more() -> None:
    async def play() -> None:
        broker, offsets = SlowBroker(), Offsets()
        lane = Lane(0, "changelog", broker.send, broker.send)
        pump = asyncio.create_task(lane.run())
        await lane.put(step(offsets, 0, features(1)))
        await lane.put(step(offsets, 1))
        broker.sent[0][1].set_exception(OSError("broker gone"))
        outcomes = await asyncio.wait_for(asyncio.gather(pump, return_exceptions=True), 1)
        assert [type(outcome) for outcome in outcomes] == [OSError]
        assert offsets.committable is None

    asyncio.run(play())
