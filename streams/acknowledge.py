"""Which events of a partition are done with: only an unbroken run from the first one is ever committed.

Events finish in any order (a tick is held until its nodes are there, sends return when they return); a commit says
"everything before this". So every event taken from a partition is kept in a line until all before it are finished.
"""

from collections import deque
from typing import NamedTuple


class Offsets:
    """The events of one topic partition since it was assigned, beginning with the one at `begin`.

    They are taken one after another without a gap, whatever is delivered twice, early or not at all.

    >>> o = Offsets(7); [o.take(n) for n in (7, 8, 8, 9, 11)]
    [True, True, False, True, False]
    >>> o.finish(8); o.committable is None
    True
    >>> o.finish(7); o.committable
    9
    """

    def __init__(self, begin: int = 0) -> None:
        self.next = begin
        """The offset of the next event to take."""
        self.untouched = True
        """Whether no event has been taken yet."""
        self._line: deque[int] = deque()
        self._finished: set[int] = set()
        self._committable: int | None = None

    def take(self, offset: int) -> bool:
        """Take the event at `offset`; False where it is not the next one."""
        if offset != self.next:
            return False
        self._line.append(offset)
        self.next = offset + 1
        self.untouched = False
        return True

    def skip_to(self, offset: int) -> int:
        """Go on at `offset`, because what is before it is gone; returns how many events that are."""
        gone, self.next = max(0, offset - self.next), max(offset, self.next)
        if gone and not self._line:
            self._committable = self.next
        return gone

    def finish(self, offset: int) -> None:
        """Note that all that follows from the event at `offset` is durable. Twice is the same as once."""
        if not self._line or offset < self._line[0]:
            return
        self._finished.add(offset)
        while self._line and self._line[0] in self._finished:
            done = self._line.popleft()
            self._finished.discard(done)
            self._committable = done + 1 if self._line else self.next

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
