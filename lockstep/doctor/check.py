"""What a probe is given and what it says."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from collectors.agent.settings import AgentSettings
from runtime.clock import Clock, SystemClock
from runtime.settings import ClickHouse

State = Literal["ok", "absent", "attention", "broken"]
"""Works; is not here or not set up (no fault); works but will not for long, or not as meant; set up and does not
work."""


class Check(NamedTuple):
    """One thing looked at. `name` "" is the probe's own; `remedy` says what to do, if anything."""

    name: str
    state: State
    seen: str
    remedy: str = ""
    section: str = ""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as the probes see it: settings, which of them somebody gave, and where the kernel's files are."""

    agent: AgentSettings
    database: ClickHouse
    given: frozenset[str] = frozenset()
    environment: Mapping[str, str] = {}
    root: Path = Path("/")
    clock: Clock = SystemClock()

    def path(self, name: str) -> Path:
        """The file at the absolute path `name`, under the machine's root."""
        return self.root / name.lstrip("/")


Probe = Callable[[Machine], list[Check]]
