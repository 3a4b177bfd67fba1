"""From the history in ClickHouse to a forest: which part of it, what was left out, and how the model does."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from detectors.forest.model import Forest, ModelError, Training
from detectors.node.budget import PER_DAYS, SECONDS_A_DAY
from detectors.train.healthy import Troubles, trouble_of
from detectors.train.training import ROWS, Alarm, Past, Trial
from lockstep.moments import shown
from runtime.errors import UserError
from schemas import NodeFrame

if TYPE_CHECKING:
    from storage.client import Client
    from storage.samples import Extent

HELD_OUT = 0.25
"""The last part of the period is not trained on: the model shows there what it would have said."""

SAID_EVERY_S = 60
"""Seconds of a node's past between two words on progress."""


class Order(NamedTuple):
    """What to train on: at most `nodes` nodes of the cluster (0: all), drawn with `seed`, in a period. `findings` is
    the budget of alarms per 10,000 GPU-days."""

    cluster: str
    from_ms: int
    to_ms: int
    nodes: int
    seed: int
    name: str
    margin_ms: int
    findings: float

    @property
    def split_ms(self) -> int:
        """Where the part that is not trained on begins."""
        return self.to_ms - int(HELD_OUT * (self.to_ms - self.from_ms)) // 1000 * 1000


class Said(msgspec.Struct, kw_only=True):
    """What a model says of the healthy ticks it was not trained on."""

    model: str
    alarms: list[Alarm]
    shares: dict[str, float]
    """Of the ticks, how many had p-values at or below so much."""


class Report(msgspec.Struct, kw_only=True):
    """Counts are ticks of GPUs; `allowed` is how many alarms the budget leaves to the part that was held out."""

    cluster: str
    from_ms: int
    split_ms: int
    to_ms: int
    nodes: int
    all_nodes: int
    gpus: int
    ticks: int
    incidents: int
    left_out: int
    not_judged: int
    trained_on: int
    held_out: int
    allowed: float
    new: Said
    own: Said


Progress = Callable[[str, float], None]
"""What is being done, and which part of all of it is done."""


def train(client: "Client", order: Order, own: Forest, progress: Progress) -> tuple[Forest, Report]:
    """A forest on the healthy part of the period, and the report. `own` is the forest it is compared with, and the one
    that says meanwhile when a baseline stands still. Raises UserError where there is too little to train on."""
    from storage.samples import incidents_during

    everybody = _extents(client, order)
    random = np.random.default_rng(order.seed)
    chosen = _drawn(everybody, order.nodes, random)
    begin_ms, end_ms = order.from_ms - order.margin_ms, order.to_ms + order.margin_ms
    incidents = incidents_during(client, order.cluster, begin_ms, end_ms)
    troubles = Troubles(trouble_of(incident, end_ms, order.margin_ms) for incident in incidents)
    rows = sum(extent.rows for extent in chosen) * (1 - HELD_OUT)
    past = Past(own, troubles, random, min(1.0, ROWS / max(rows, 1)), order.findings)
    steps = _Steps(client, order, chosen, progress)
    for frame in steps.frames(order.from_ms, order.split_ms, "learning"):
        past.take(frame)
    source = f"cluster {order.cluster}: {len(chosen)} of {len(everybody)} nodes, {len(past.gpus)} GPUs"
    training = Training(
        source=f"{source}, without what {len(incidents)} of its incidents were about",
        from_ms=order.from_ms,
        to_ms=order.split_ms,
    )
    try:
        forest = past.train(training, order.name)
    except ModelError as error:
        raise UserError(
            f"cluster {order.cluster} from {shown(order.from_ms)} to {shown(order.split_ms)}: {error} "
            f"({past.left_out} were left out for incidents, {past.not_judged} had no baseline yet); "
            "give more --hours or --nodes"
        ) from None
    trials = [past.trial(forest), past.trial(own)]
    for frame in steps.frames(order.split_ms, order.to_ms, "trying"):
        for trial in trials:
            trial.take(frame)
    report = Report(
        cluster=order.cluster,
        from_ms=order.from_ms,
        split_ms=order.split_ms,
        to_ms=order.to_ms,
        nodes=len(chosen),
        all_nodes=len(everybody),
        gpus=len(past.gpus),
        ticks=past.ticks,
        incidents=len(incidents),
        left_out=past.left_out,
        not_judged=past.not_judged,
        trained_on=past.kept,
        held_out=trials[0].judged,
        allowed=order.findings * trials[0].judged / SECONDS_A_DAY / PER_DAYS,
        new=_said(trials[0]),
        own=_said(trials[1]),
    )
    return forest, report


class _Steps:
    """The frames of one part after another, with a word on progress."""

    def __init__(self, client: "Client", order: Order, chosen: "Sequence[Extent]", progress: Progress) -> None:
        self._client, self._cluster, self._chosen, self._progress = client, order.cluster, chosen, progress
        self._all_ms = len(chosen) * (order.to_ms - order.from_ms)
        self._done_ms = 0

    def frames(self, from_ms: int, to_ms: int, doing: str) -> Iterator[NodeFrame]:
        from storage.samples import frames

        for extent in self._chosen:
            said_ms = from_ms
            for frame in frames(self._client, self._cluster, extent.node, from_ms, to_ms):
                if frame.ts_ms >= said_ms:
                    done = (self._done_ms + frame.ts_ms - from_ms) / self._all_ms
                    self._progress(f"{doing}: {extent.node} at {shown(frame.ts_ms)}", done)
                    said_ms = frame.ts_ms + SAID_EVERY_S * 1000
                yield frame
            self._done_ms += to_ms - from_ms


def _extents(client: "Client", order: Order) -> "list[Extent]":
    from storage.samples import extents, newest_ms

    found = extents(client, order.cluster, order.from_ms, order.to_ms)
    if found:
        return found
    newest = newest_ms(client, order.cluster)
    if newest is None:
        raise UserError(f"no GPU samples of cluster {order.cluster!r} in the database: give --cluster, or let it run")
    raise UserError(
        f"no GPU samples of cluster {order.cluster!r} from {shown(order.from_ms)} to {shown(order.to_ms)}: "
        f"the newest is of {shown(newest)} (--to, --hours)"
    )


def _drawn(everybody: "Sequence[Extent]", most: int, random: np.random.Generator) -> "list[Extent]":
    if not most or most >= len(everybody):
        return list(everybody)
    return [everybody[i] for i in sorted(random.choice(len(everybody), most, replace=False))]


def _said(trial: Trial) -> Said:
    return Said(
        model=trial.model.name,
        alarms=trial.alarms,
        shares={f"{share:g}": part for share, part in trial.shares.items()},
    )
