"""What the spool cannot do, as events: once when it begins, once when it is over.

The event goes the way of all records, so in an outage longer than the spool it may be among the oldest that are given
up; the one that ends the episode then says how many records the whole of it cost.
"""

import logging

from collectors.agent.spool import Spool
from collectors.base import event
from schemas.event import Event

logger = logging.getLogger(__name__)

ROOM = 0.5
"""Part of the spool that may be full when the episode is over: it falls by a sixteenth at each loss, so that anything
near the whole would be an end and a beginning every few minutes of one outage."""


class SpoolWatch:
    """Looks at `spool` after each tick; gives drafts of spool_full, spool_room, spool_unwritable, spool_writable."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._given_up, self._before = spool.given_up, spool.given_up
        self._full = False
        self._failing = ""

    def changes(self) -> list[Event]:
        """What began or ended since the last look."""
        room, disk = self._room(), self._disk()
        if room is not None:  # of the disk the spool has spoken itself
            logger.log(logging.WARNING if self._full else logging.INFO, "%s", room.text)
        return [draft for draft in (room, disk) if draft is not None]

    def _room(self) -> Event | None:
        spool = self._spool
        lost, self._given_up = spool.given_up - self._given_up, spool.given_up
        if lost and not self._full:
            self._full, self._before = True, spool.given_up - lost
            text = f"the agent's spool is full ({spool.max_bytes / 2**20:.3g} MiB): its oldest records are given up"
            return event("spool_full", severity="warning", text=text, detail={"waiting": str(spool.waiting)})
        if self._full and not lost and spool.disk_bytes <= ROOM * spool.max_bytes:
            self._full = False
            count = spool.given_up - self._before
            text = f"the agent's spool has room again; {count} records were given up"
            return event("spool_room", text=text, detail={"given_up": str(count)})
        return None

    def _disk(self) -> Event | None:
        before, self._failing = self._failing, self._spool.failing
        if self._failing and not before:
            text = f"the agent's spool cannot be written ({self._failing}): records wait in memory"
            return event("spool_unwritable", severity="warning", text=text, detail={"reason": self._failing})
        if before and not self._failing:
            return event("spool_writable", text="the agent's spool can be written again", detail={"reason": before})
        return None
