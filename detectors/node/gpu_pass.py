"""What is kept of each GPU, what one tick says of it, and two passes over all GPUs of a node: to judge and to learn.

Both are arrays of records, a record a GPU, so that a pass takes few arguments: for some GPUs a call costs more by its
arguments than by its arithmetic. What a record's fields mean is said by those who use them: `detectors.node.baseline`,
`detectors.node.coupling`, `detectors.condition` and, of a tick, `detectors.node.deviation`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detectors.compile import compiled, part
from detectors.condition import AVERAGED_TICKS, Float32, Index, Ranges, mean_row
from detectors.forest.magnitude import measure_row
from detectors.node.baseline import LAYERS, MEMORY_TICKS, compare_row, floors, learn_row
from detectors.node.coupling import learn_row as couple_row
from detectors.node.coupling import residual_row, shape_of, start, start_row
from detectors.node.gpu_columns import (
    COMPARED,
    COMPARED_AT,
    COUNTED,
    EXPECTED_PRESENCE,
    IDLE,
    MEASURED,
    NEW,
    PRESENCE_TICKS,
    PRESENCE_WARM_UP,
    RAW,
    RAW_AT,
    SCORED_AT,
    SETTLE_HEAT_TICKS,
    SETTLE_TICKS,
    STATES,
    WAITING,
    WORKING,
    WORKING_FROM_PCT,
    WORKING_UNTIL_PCT,
)

Records = NDArray[np.void]
Mask = NDArray[np.bool_]

_PAIRS = shape_of(len(SCORED_AT))

GPU = np.dtype(
    [
        ("baseline", np.float32, (STATES, LAYERS, len(COMPARED))),
        ("covariance", np.float32, _PAIRS),
        ("root", np.float32, _PAIRS),
        ("coupled", np.float32),
        ("presence", np.float32, len(RAW)),
        ("ticks", np.float32),
        ("ring", np.float32, (AVERAGED_TICKS, len(COMPARED))),
        ("last", np.float32, len(COUNTED)),
        ("age", np.float32),
        ("state", np.int32),
        ("work", np.int32),
        ("has_job", np.int32),
        ("seen_ms", np.int64),
    ],
    align=True,
)
"""One GPU between two ticks. `coupled` is the couplings' count, `presence` and `ticks` tell how regularly each metric
is there, `ring` and `last` are of averages and counters, `age` is how many ticks it has been in `state`, `work` is one
of the below."""

SAME_WORK, MAYBE_OTHER_WORK, OTHER_WORK = 0, 1, 2
"""Another job: what was usual at work is learned anew. A job whose name comes late may be the work that was there."""

TICK = np.dtype(
    [
        ("raw", np.float32, len(RAW)),
        ("grown", np.float32, len(COUNTED)),
        ("readings", np.float32, len(COMPARED)),
        ("z", np.float32, len(COMPARED)),
        ("centre", np.float32, len(COMPARED)),
        ("scored", np.float32, len(SCORED_AT)),
        ("residual", np.float32, len(SCORED_AT)),
        ("missing_share", np.float32),
        ("judged", np.int32),
        ("state", np.int64),
        ("settled", np.uint8, len(COMPARED)),
        ("read", np.uint8, len(RAW)),
        ("absent", np.uint8, len(RAW)),
        ("here", np.bool_),
        ("known", np.bool_),
    ],
    align=True,
)
"""One GPU in one tick, as `deviation.Deviation` has it. `settled` metrics may be judged, `read` ones gave a reading."""

_RANGES = Ranges("gpu", RAW)
_LOW, _HIGH = _RANGES.low, _RANGES.high
_MEASURED_AT: Index = np.array([RAW_AT[name] for name in MEASURED], dtype=np.intp)
_COUNTED_AT: Index = np.array([RAW_AT[name] for name in COUNTED], dtype=np.intp)

FLOOR = floors(COMPARED)
"""An argument of the passes, not a constant in them, and fields of records are sliced whole where a part takes them:
these are then arrays as a host has them, and a part is compiled once for both."""

_SETTLE: Float32 = np.array(
    [SETTLE_HEAT_TICKS if name.endswith("_c") else SETTLE_TICKS for name in COMPARED], dtype=np.float32
)
_POWER, _AVERAGE = RAW_AT["power_w"], RAW_AT["power_average_w"]
_USE, _ACTIVE = COMPARED_AT["gpu_utilization_pct"], COMPARED_AT["sm_active_ratio"]
_RAW_USE, _RAW_ACTIVE = RAW_AT["gpu_utilization_pct"], RAW_AT["sm_active_ratio"]


def new_gpus(count: int) -> Records:
    """GPUs of which nothing is known; they are taken for settled."""
    gpus = np.zeros(count, dtype=GPU)
    gpus["ring"] = gpus["last"] = np.nan
    gpus["age"], gpus["state"] = SETTLE_HEAT_TICKS, NEW
    start(gpus["covariance"], gpus["root"], gpus["coupled"])
    return gpus


@compiled
def judge(
    values: Float32,
    place: Index,
    source: Index,
    target: Index,
    listed: int,
    ts_ms: int,
    step: int,
    floor: Float32,
    gpus: Records,
    tick: Records,
    features: Float32,
) -> int:
    """From the readings `values` (a row for each of `place` in `gpus`, columns `source`, which are `target` of RAW) to
    all of `tick`, and the forest's `features`. The first `listed` of `gpus` stand in the frame of time `ts_ms`; `step`
    is the layer of the rings that is due, `floor` is FLOOR. Returns how many readings were out of range."""
    for r in range(len(tick)):
        _clear(tick[r]["raw"])
    out_of_range = 0
    for i in range(len(place)):
        out_of_range += _take(values[i], source, target, tick[place[i]]["raw"])
    for r in range(len(gpus)):
        gpu, now = gpus[r], tick[r]
        if r < listed:
            gpu["seen_ms"] = ts_ms
        _expect(gpu["presence"], now)
        _condition(gpu, now, step)
        _follow(gpu, now)
        z, scored = now["z"][:], now["scored"][:]
        compare_row(gpu["baseline"][gpu["state"]], floor, now["readings"][:], now["settled"][:], z, now["centre"][:])
        for k in range(len(SCORED_AT)):
            scored[k] = z[SCORED_AT[k]]
        residual_row(gpu["root"][:], scored, now["residual"][:])
        now["judged"] = measure_row(scored, now["residual"][:], now["missing_share"], features[r])
    return out_of_range


@compiled
def learn(floor: Float32, gpus: Records, tick: Records, usual: Mask, expecting: Mask, due: Mask) -> bool:
    """Let baselines and couplings of the rows in `usual` learn from `tick`; rows in `expecting` go on expecting what is
    absent now. Whose root is to be drawn anew is in `due`; whether there is any, is returned. `floor` is FLOOR."""
    any_due = False
    for r in range(len(gpus)):
        gpu, now = gpus[r], tick[r]
        due[r] = False
        if usual[r]:
            learn_row(gpu["baseline"][gpu["state"]], floor, MEMORY_TICKS, now["readings"][:], now["settled"][:])
            gpu["coupled"], due[r] = couple_row(gpu["covariance"][:], gpu["coupled"], MEMORY_TICKS, now["scored"][:])
            any_due |= due[r]
        gpu["ticks"] = _remember(now["read"], expecting[r], gpu["presence"], gpu["ticks"])
    return any_due


@part
def _clear(raw: Float32) -> None:
    for c in range(len(raw)):
        raw[c] = np.nan


@part
def _take(given: Float32, source: Index, target: Index, raw: Float32) -> int:
    """Readings in range into `raw`; how many are out of it is returned."""
    out_of_range = 0
    for k in range(len(target)):
        c, value = target[k], given[source[k]]
        if value >= _LOW[c] and value <= _HIGH[c]:
            raw[c] = value
        elif not np.isnan(value):
            out_of_range += 1
    return out_of_range


@part
def _expect(presence: Float32, now: Any) -> None:
    """What is read, and what is not though it is expected."""
    raw, read, absent = now["raw"], now["read"], now["absent"]
    expected = gone = 0
    here = known = False
    for c in range(len(presence)):
        is_here, is_expected = not np.isnan(raw[c]), presence[c] > EXPECTED_PRESENCE
        read[c], absent[c] = is_here, is_expected and not is_here
        here |= is_here
        known |= presence[c] > 0
        expected += is_expected
        gone += is_expected and not is_here
    now["here"], now["known"] = here, known
    now["missing_share"] = np.float32(gone) / np.float32(max(expected, 1))


@part
def _condition(gpu: Any, now: Any, step: int) -> None:
    """Counters to increases, and the means of the last ticks. Where no average power is read, the power of now is."""
    raw, grown, readings, last, ring = now["raw"], now["grown"], now["readings"], gpu["last"], gpu["ring"]
    if not now["read"][_AVERAGE]:
        raw[_AVERAGE] = raw[_POWER]
    for k in range(len(_COUNTED_AT)):
        total = raw[_COUNTED_AT[k]]
        more = total - last[k]
        grown[k] = more if more >= 0 else np.nan
        if not np.isnan(total):
            last[k] = total
        ring[step, len(_MEASURED_AT) + k] = grown[k]
    for k in range(len(_MEASURED_AT)):
        ring[step, k] = raw[_MEASURED_AT[k]]
    mean_row(ring, readings)


@part
def _follow(gpu: Any, now: Any) -> None:
    """What the GPU does now, for how long, and which of its metrics may be judged. One that did not work in this tick
    though on average it still does is a mixture that nobody can judge."""
    readings, raw, before = now["readings"], now["raw"], gpu["state"]
    used, used_now = readings[_USE], raw[_RAW_USE]
    if np.isnan(used):
        used = readings[_ACTIVE] * np.float32(100.0)
    if np.isnan(used_now):
        used_now = raw[_RAW_ACTIVE] * np.float32(100.0)
    working = before == WORKING
    if not np.isnan(used):
        working = used >= (WORKING_UNTIL_PCT if working else WORKING_FROM_PCT)
    state = WORKING if working else WAITING if gpu["has_job"] else IDLE
    gpu["age"] = gpu["age"] + np.float32(1.0) if state == before or before == NEW else np.float32(0.0)
    gpu["state"] = now["state"] = state
    goes_on = before == NEW or (before == WORKING and state == WORKING)
    other = gpu["work"] == OTHER_WORK or (gpu["work"] == MAYBE_OTHER_WORK and not goes_on)
    gpu["work"] = SAME_WORK
    if other:
        _forget(gpu["baseline"])
        gpu["coupled"] = start_row(gpu["covariance"], gpu["root"])
        gpu["age"] = np.float32(0.0)
    settled, age = now["settled"], gpu["age"]
    judged = not other and not (state == WORKING and used_now < WORKING_UNTIL_PCT)
    for c in range(len(settled)):
        settled[c] = judged and age >= _SETTLE[c]


@part
def _forget(baseline: Float32) -> None:
    """What was usual while the GPU had work."""
    for state in (WAITING, WORKING):
        for layer in range(LAYERS):
            for c in range(baseline.shape[2]):
                baseline[state, layer, c] = 0.0


@part
def _remember(read: Mask, expecting: bool, presence: Float32, ticks: np.float32) -> np.float32:
    """How regularly each metric is there; of a GPU that is `expecting`, what is absent now goes on being expected.
    Returns the ticks there were, as far as they matter."""
    ticks = min(ticks + np.float32(1.0), np.float32(PRESENCE_WARM_UP))
    gain = np.float32(1.0) / (ticks if ticks < PRESENCE_WARM_UP else np.float32(PRESENCE_TICKS))
    for c in range(len(read)):
        moved = gain * (np.float32(read[c]) - presence[c])
        if moved > 0 or not expecting:
            presence[c] += moved
    return ticks
