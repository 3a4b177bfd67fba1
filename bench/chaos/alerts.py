"""Random incident lives with random deaths of the alerter: each is opened once and closed once, nothing is lost.

    python -m bench.chaos alerts --lives 1000 --seed 1

The alerter is the real one, with PagerDuty's receiver over TLS against a local one that keeps the documented rules:
202, 429 by a sliding window and at random, 5xx, resets, lost answers, and a dedup key that opens anew after its
resolve. Time is a fake clock, so an hour without the receiver takes no hour. A death is an exception at any write or
request; what survives is what was stored.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from alerts.alerter import Alerter
from alerts.pagerduty import PagerDuty
from alerts.receiver import Answer, Outcome
from alerts.settings import AlertsSettings
from bench.chaos.pagerduty import ROUTING_KEY, PagerDutyReceiver
from runtime.health import Counters
from schemas import AlertState, Incident, Record
from schemas.causes import CAUSES, Cause
from schemas.codec import encode
from schemas.examples import EXAMPLES
from schemas.finding import Subject

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))
START_MS = 1_790_000_000_000
FATES = ("ok",) * 10 + ("reset", "lost", "limited", "down")


class Killed(BaseException):
    """The process dies here."""


class Message(NamedTuple):
    """A message of the incidents topic."""

    value: bytes
    topic: str = "incidents"
    partition: int = 0
    offset: int = 0


class Clock:
    """Time that the world turns."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return START_MS + int(1000 * self.now_s)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Score(NamedTuple):
    """What became of the lives, and what it took."""

    lives: int
    opened: int
    closed: int
    silent: int
    deaths: int
    requests: int
    seconds: float
    wrong: list[str]


class World:
    """What survives the alerter's death: the topics, the committed offset, the receiver with its own count."""

    name = "pagerduty"
    rate = PagerDuty.rate
    refresh_s = 0.0

    def __init__(self, random: Random, news: list[Incident], death_rate: float, receiver: PagerDutyReceiver) -> None:
        self._random, self._news, self._death_rate, self._receiver = random, news, death_rate, receiver
        self.clock = Clock()
        receiver.now, receiver.choose = self.clock.monotonic, self._fate
        self._pagerduty = PagerDuty(
            AlertsSettings(
                pagerduty_routing_key=ROUTING_KEY, pagerduty_url=receiver.url, pagerduty_ca=receiver.ca,
                pagerduty_timeout_s=5.0,
            )
        )  # fmt: skip
        self.render, self.route, self.knows = self._pagerduty.render, self._pagerduty.route, self._pagerduty.knows
        self._committed = 0
        self.states: dict[str, AlertState] = {}
        self.requests = 0
        self._down_until_s = 0.0

    def deliver(self, attempt: AlertState) -> Answer:
        self._perhaps_die()
        self.requests += 1
        if self.clock.now_s < self._down_until_s:
            return Answer(Outcome.RETRY, "nobody there", arrived=False)
        answer = self._pagerduty.deliver(attempt)
        self._perhaps_die()
        return answer

    def store(self, record: Record) -> None:
        self._perhaps_die()
        if isinstance(record, AlertState):
            self.states[record.key] = record
        self._perhaps_die()

    def live(self) -> bool:
        """One life of the process, up to its death (False) or until nothing is left to do (True)."""
        try:
            known = list(self.states.values())
            alerter = Alerter(INCIDENT.cluster, [self], known, self.store, self.clock, Counters(), holds=())
            position = self._committed
            while True:
                batch = self._news[position : position + self._random.randint(0, 3)]
                alerter.accept([Message(encode(news)) for news in batch])
                position += len(batch)
                self._perhaps_die()
                self._committed = position
                tried = alerter.deliver()
                self.clock.now_s += 2.0
                if self._random.random() < 0.0005:
                    self._down_until_s = self.clock.now_s + 3600.0
                done = all(_settled(state) for state in self.states.values())
                if position == len(self._news) and not tried and done:
                    return True
        except Killed:
            return False

    def _perhaps_die(self) -> None:
        if self._random.random() < self._death_rate:
            raise Killed

    def _fate(self) -> int | str:
        """What the receiver does with the next request."""
        fate = self._random.choice(FATES)
        return {"ok": 202, "limited": 429, "down": self._random.choice((500, 502, 503, 504))}.get(fate, fate)


def play(lives: int, seed: int, folder: Path, death_rate: float = 0.02) -> Score:
    """Live `lives` incidents, as they come mixed together; what was opened, closed, and what is wrong with it."""
    random, begin = Random(seed), time.perf_counter()
    told = [_life(number, random) for number in range(lives)]
    ids = {news[0].id for news in told}
    with PagerDutyReceiver(folder, limit=120) as receiver:
        world = World(random, _mixed(told, random), death_rate, receiver)
        deaths = 0
        while not world.live():
            deaths += 1
        silent = {s.incident for s in world.states.values() if s.status == "suppressed"}
        wrong = [f"{key} is still open" for key in receiver.open_now]
        wrong += [f"{key} was opened again after its resolve" for key in receiver.reopened]
        wrong += [f"{key} was opened and never closed" for key in set(receiver.opened) - set(receiver.closed)]
        wrong += [f"{key} was closed twice" for key in set(receiver.closed) if receiver.closed.count(key) > 1]
        wrong += [f"{key} was forgotten" for key in ids - set(receiver.opened) - silent]
        wrong += [f"{key} was paged and called silent" for key in silent & set(receiver.opened)]
        wrong += [f"refused for {what}" for what in receiver.refused]
        seconds = time.perf_counter() - begin
        return Score(
            lives, len(receiver.opened), len(receiver.closed), len(silent), deaths, world.requests, seconds, wrong
        )


def main(arguments: Sequence[str]) -> int:
    """Print what became of the lives; 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos alerts", description=__doc__.splitlines()[0])
    parser.add_argument("--lives", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--death-rate", type=float, default=0.02, help="at each write and request")
    options = parser.parse_args(arguments)
    logging.getLogger("lockstep.alerts").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="lockstep-chaos-") as folder:
        score = play(options.lives, options.seed, Path(folder), options.death_rate)
    print(
        f"{score.lives} lives: {score.opened} opened, {score.closed} closed, {score.silent} over before anybody was"
        f" paged; {score.deaths} deaths, {score.requests} requests, {score.seconds:.1f} s"
    )
    for line in score.wrong:
        print("WRONG", line)
    return 1 if score.wrong else 0


def _life(number: int, random: Random) -> list[Incident]:
    cause: Cause = random.choice(list(CAUSES))
    who = Subject(scope="node", node=f"r{number % 8:02}-t{number % 18:02}")
    base = replace(INCIDENT, id=f"i-{number:08}", cause=cause, culprits=(who,))
    told = [replace(base, revision=0, change="open", state="confirmed")]
    for revision in range(1, random.randint(1, 5)):
        grown = replace(base, revision=revision, change="update", victims=base.victims * 2**revision)
        told.append(replace(grown, cause=random.choice(list(CAUSES))) if random.random() < 0.5 else grown)
    told.append(replace(base, revision=len(told), change="resolve", state="resolved"))
    return told


def _mixed(told: list[list[Incident]], random: Random) -> list[Incident]:
    """All news in one order, each life's own order kept, some twenty lives at a time."""
    mixed: list[Incident] = []
    waiting, living = [list(news) for news in told], list[list[Incident]]()
    while waiting or living:
        while waiting and len(living) < 20:
            living.append(waiting.pop(0))
        one = random.choice(living)
        mixed.append(one.pop(0))
        living = [news for news in living if news]
    return mixed


def _settled(state: AlertState) -> bool:
    return state.attempted_resolve and state.status in ("delivered", "rejected", "suppressed")
