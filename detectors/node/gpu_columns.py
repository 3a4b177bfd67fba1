"""Which numbers of a GPU are looked at, and what a GPU can be doing."""

import numpy as np
from numpy.typing import NDArray

from detectors.condition import Index
from schemas.metrics import SECTIONS, names

RAW = names("gpu")
"""Columns of what was read, range-checked."""

RAW_AT = {name: i for i, name in enumerate(RAW)}

_EVERY_SECOND = tuple(metric for metric in SECTIONS["gpu"] if metric.every_s == 1)
MEASURED = tuple(metric.name for metric in _EVERY_SECOND if metric.kind in ("gauge", "rate"))
COUNTED = tuple(metric.name for metric in _EVERY_SECOND if metric.kind == "counter")

COMPARED = MEASURED + COUNTED
"""Columns of what is compared with baselines; of a counter its increase per tick."""

COMPARED_AT = {name: i for i, name in enumerate(COMPARED)}

UNSCORED = ("memory_used_mib", "power_w")
"""Compared and published, but not part of the score: memory moves with every allocation, and power of one moment says
which part of a step the poll met. Average power stands for it."""

SCORED: NDArray[np.bool_] = np.array([name not in UNSCORED for name in COMPARED])
SCORED_AT: Index = np.flatnonzero(SCORED)
SCORED_NAMES = tuple(COMPARED[i] for i in SCORED_AT)

IDLE, WAITING, WORKING = 0, 1, 2
STATES = 3
NEW = -1
"""The state of a GPU before its first tick."""

WORKING_FROM_PCT, WORKING_UNTIL_PCT = 10.0, 5.0
"""Utilisation that makes a GPU a working one, and below which it no longer is (an idle GPU shows 0, a waiting one
flickers by a few percent)."""

SETTLE_TICKS = 15
SETTLE_HEAT_TICKS = 180
"""How long a metric moves after a change of state: clocks and power a few seconds, temperatures up to 100 s (the two
real lock-ups of the H100 set). A GPU seen for the first time is taken for settled."""

PRESENCE_TICKS, PRESENCE_WARM_UP = 3600.0, 60.0
EXPECTED_PRESENCE = 0.9
"""A metric that was there in nine of ten ticks of the last hour (at first: minute) is expected; a slow one is not."""
