"""What a producer still has to deliver: a line with a bound, and what is under way. No threads and no broker here."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

OnDone = Callable[[Exception | None], None]

IN_FLIGHT = 1000
IN_FLIGHT_BYTES = 8 << 20


class Waiting(NamedTuple):
    """One message, `number` in the order it was sent."""

    number: int
    topic: str
    key: bytes
    value: bytes
    on_done: OnDone | None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value)


class Buffer:
    """Messages wait, are taken, and land or come back to their old place.

    At most `bound` messages and `bound_bytes` bytes wait, at most 1000 messages and 8 MiB are under way.

    >>> b = Buffer(bound=2, bound_bytes=100)
    >>> [[m.value for m in b.add("t", b"", v, None)] for v in (b"a", b"b", b"c")]
    [[], [], [b'a']]
    >>> first, second = b.take(0.0), b.take(0.0)
    >>> b.back(second); b.back(first); b.take(0.0).value
    b'b'
    """

    def __init__(self, bound: int, bound_bytes: int) -> None:
        self._bound, self._bound_bytes = bound, bound_bytes
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._taken: dict[int, Waiting] = {}
        self._taken_bytes = 0
        self._again: list[Waiting] = []
        self._not_before: dict[str, float] = {}
        self.newest = 0
        """The number of the message added last."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._again) + len(self._taken)

    @property
    def under_way(self) -> int:
        """Messages taken that have neither landed nor come back."""
        return len(self._taken)

    @property
    def oldest(self) -> int:
        """The number of the oldest message in here; one more than the newest where there is none."""
        numbers = [*self._taken, *(message.number for message in self._again)]
        if self._waiting:
            numbers.append(self._waiting[0].number)
        return min(numbers, default=self.newest + 1)

    def add(self, topic: str, key: bytes, value: bytes, on_done: OnDone | None) -> list[Waiting]:
        """Line a message up; what had to go for it, those that waited longest."""
        self.newest += 1
        message = Waiting(self.newest, topic, key, value, on_done)
        self._waiting.append(message)
        self._waiting_bytes += message.size
        dropped = []
        while len(self._waiting) > self._bound or self._waiting_bytes > self._bound_bytes:
            dropped.append(self._remove(0))
        return dropped

    def take(self, now_s: float) -> Waiting | None:
        """The next message to hand on; None where there is none, enough is under way, or its topic is put off."""
        if self._again:
            if self._taken:
                return None  # those may come back too: order first
            self._again.sort()
            self._waiting.extendleft(reversed(self._again))
            self._waiting_bytes += sum(message.size for message in self._again)
            self._again.clear()
        if len(self._taken) >= IN_FLIGHT or self._taken_bytes >= IN_FLIGHT_BYTES:
            return None
        for index, message in enumerate(self._waiting):
            if not self._not_before or self._not_before.get(message.topic, 0.0) <= now_s:
                self._remove(index)
                self._taken[message.number] = message
                self._taken_bytes += message.size
                return message
        return None

    def landed(self, message: Waiting) -> bool:
        """It needs no further delivery; False where it was given up meanwhile."""
        if self._taken.pop(message.number, None) is None:
            return False
        self._taken_bytes -= message.size
        return True

    def back(self, message: Waiting) -> None:
        """It did not arrive and takes its old place in the line."""
        if self.landed(message):
            self._again.append(message)

    def put_off(self, topic: str, until_s: float) -> None:
        """Messages of other topics go first until then."""
        self._not_before[topic] = until_s

    def resume(self, topic: str) -> None:
        self._not_before.pop(topic, None)

    def give_up(self) -> list[Waiting]:
        """Everything that is left, in order; the buffer is empty afterwards."""
        left = sorted([*self._taken.values(), *self._again, *self._waiting])
        self._taken.clear()
        self._again.clear()
        self._waiting.clear()
        self._waiting_bytes = self._taken_bytes = 0
        return left

    def _remove(self, index: int) -> Waiting:
        message = self._waiting[index]
        del self._waiting[index]
        self._waiting_bytes -= message.size
        return message
