"""Random incident lives with random deaths of the alerter: one page opened and one closed for each."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from alerts.alerter import Alerter
from alerts.receiver import Outcome
from runtime.deadletters import TooManyBadMessages
from runtime.health import Counters
from schemas import AlertState, DeadLetter, Incident, Record
from schemas.codec import encode
from schemas.examples import EXAMPLES

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))


class Killed(BaseException):
    """The process dies here."""


class Message(NamedTuple):
    value: bytes
    topic: str = "incidents"
    partition: int = 0
    offset: int = 0


class Clock:
    now = 0.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class World:
    """What survives the alerter's death: the topics, the committed offset, and the receiver with its own count."""

    name = "pagerduty"

    def __init__(self, random: Random, incidents: list[Incident], death_rate: float) -> None:
        self.random, self.incidents, self.death_rate = random, incidents, death_rate
        self.clock = Clock()
        self.committed = 0
        self.states: dict[tuple[str, str], AlertState] = {}
        self.letters: list[DeadLetter] = []
        self.open: set[str] = set()
        self.opened: list[str] = []
        self.closed: list[str] = []

    def perhaps_die(self) -> None:
        if self.random.random() < self.death_rate:
            raise Killed

    def store(self, record: Record) -> None:
        self.perhaps_die()
        if isinstance(record, AlertState):
            self.states[record.receiver, record.incident] = record
        elif isinstance(record, DeadLetter):
            self.letters.append(record)
        self.perhaps_die()

    def render(self, incident: Incident, action: str) -> bytes:
        return f"{action}/{incident.id}/{incident.revision}".encode()

    def deliver(self, body: bytes) -> tuple[Outcome, str]:
        self.perhaps_die()
        fate = self.random.choice(["ok", "ok", "ok", "limited", "down", "answer lost"])
        if fate == "limited":
            return Outcome.RETRY_LATE, "429"
        if fate == "down":
            return Outcome.RETRY, "503"
        action, key, _ = body.decode().split("/")
        if action == "resolve":
            if key in self.open:
                self.open.remove(key)
                self.closed.append(key)
        elif key not in self.open:
            self.open.add(key)
            self.opened.append(key)
        self.perhaps_die()
        return (Outcome.RETRY, "timeout") if fate == "answer lost" else (Outcome.DELIVERED, "202")

    def live(self) -> bool:
        """One life of the process, up to its death (False) or until nothing is left to do (True)."""
        try:
            alerter = Alerter("c", [self], list(self.states.values()), self.store, self.clock, Counters())
            position = self.committed
            while True:
                batch = self.incidents[position : position + self.random.randint(1, 4)]
                alerter.accept([Message(encode(i)) for i in batch])
                position += len(batch)
                if alerter.may_commit():
                    self.committed = position
                self.perhaps_die()
                busy = alerter.deliver()
                self.clock.now += 5.0
                waiting = any(s.status == "intent" for s in self.states.values())
                if position == len(self.incidents) and not busy and not waiting and alerter.may_commit():
                    return True
        except Killed:
            return False


def life(number: int, random: Random) -> list[Incident]:
    base = replace(INCIDENT, id=f"i-{number}")
    causes = ["gpu_degraded", "thermal_throttle", "leak", "unknown"]
    lived = [replace(base, revision=0, change="open")]
    for revision in range(1, random.randint(1, 5)):
        lived.append(replace(base, revision=revision, change="update", cause=random.choice(causes)))
    lived.append(replace(base, revision=len(lived), change="resolve", state="resolved"))
    return lived


@pytest.mark.parametrize("seed", range(50))
def test_one_open_and_one_close_per_life_however_often_the_alerter_dies(seed: int) -> None:
    random = Random(seed)
    lives = [life(number, random) for number in range(5)]
    mixed: list[Incident] = []
    while any(lives):
        mixed.append(random.choice([one for one in lives if one]).pop(0))
    world = World(random, mixed, death_rate=0.03)
    for _ in range(2000):
        if world.live():
            break
    else:
        raise AssertionError("never came to an end")
    assert world.open == set()
    assert sorted(world.opened) == sorted(world.closed), "each page opened was closed"
    assert len(set(world.opened)) == len(world.opened), "no incident was opened twice"
    silent = {s.incident for s in world.states.values() if s.status == "suppressed"}
    assert set(world.opened) | silent == {f"i-{n}" for n in range(5)}, "nothing was forgotten"


def test_garbage_goes_to_the_dead_letters_and_a_flood_of_it_stops_the_alerter() -> None:
    world = World(Random(0), [], death_rate=0.0)
    alerter = Alerter("c", [world], [], world.store, world.clock, Counters())
    assert alerter.accept([Message(b"\xc1", offset=5)])
    (letter,) = world.letters
    assert (letter.origin_offset, letter.reason) == (5, "not_msgpack")
    flood: Callable[[], bool] = lambda: alerter.accept([Message(b"\xff\xff")] * 200)  # noqa: E731
    with pytest.raises(TooManyBadMessages):
        flood()
