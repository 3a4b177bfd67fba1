"""Which events of a partition are done with: only an unbroken run from the first one is ever committed.

Events finish in any order (a tick is held until its nodes are there, sends return when they return); a commit says
"everything before this". So every event taken from a partition is kept in a line until all before it are finished.
"""

from collections import deque
from typing import NamedTuple


class Offsets:
    """The open events of one topic partition since it was assigned.

    >>> o = Offsets(); [o.take(n) for n in (7, 8, 9)]
    [True, True, True]
    >>> o.finish(8); o.committable is None
    True
    >>> o.finish(7); o.committable
    9
    """

    def __init__(self) -> None:
        self._line: deque[int] = deque()
        self._finished: set[int] = set()
        self.newest: int | None = None
        """The last offset taken."""
        self._committable: int | None = None
        self.missing = 0
        """Offsets that were never delivered (deleted before they were read), in all."""

    def start(self, committed: int | None) -> None:
        """Say where the last worker left off, before the first event is taken; None where nobody ever committed."""
        self.newest = None if committed is None else committed - 1

    def take(self, offset: int) -> bool:
        """Note that the event at `offset` is being worked on; False where it is in hand or done already."""
        if self.newest is not None:
            if offset <= self.newest:
                return False
            self.missing += offset - self.newest - 1
        self.newest = offset
        self._line.append(offset)
        return True

    def finish(self, offset: int) -> None:
        """Note that all that follows from the event at `offset` is durable. Twice is the same as once."""
        if not self._line or offset < self._line[0]:
            return
        self._finished.add(offset)
        while self._line and self._line[0] in self._finished:
            done = self._line.popleft()
            self._finished.discard(done)
            self._committable = done + 1

    @property
    def committable(self) -> int | None:
        """The offset to go on from after a restart; None while nothing may be committed."""
        return self._committable

    @property
    def open(self) -> int:
        """Events taken and not yet covered by `committable`."""
        return len(self._line)


class Token(NamedTuple):
    """One event's place in its partition's line, handed along with what follows from it."""

    offsets: Offsets
    topic: str
    partition: int
    offset: int

    def finish(self) -> None:
        self.offsets.finish(self.offset)
