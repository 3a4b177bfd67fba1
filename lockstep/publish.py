"""Forests on the topic `models`, as an operator sees them: what was published, and one word more."""

from collections.abc import Sequence
from typing import NamedTuple

from detectors.forest.model import Forest, ModelError
from lockstep.reach import put
from runtime.errors import UserError
from runtime.kafka import MAX_MESSAGE_BYTES, read_topic
from runtime.settings import Connection
from schemas import Model
from schemas.codec import WireError, decode
from schemas.record import LAST_MS
from streams.models import OWN, TOPIC, Publication, in_force, publication

LEAD_MS = 10_000
"""A publication holds from this long after it was made, so that every worker knows it before that tick is there: the
way to a worker takes less than a second, and clocks of nodes that are off by more are told by a finding."""

TICK_MS = 1000

KEPT = 10
"""Publications that stay on the topic, to go back to and for replays: each takes the place of the oldest."""


class Published(NamedTuple):
    """One record of the topic; `refused` says why workers leave it out, "" where they do not."""

    record: Model
    found: Publication | None
    refused: str = ""


def published(connection: Connection) -> list[Published]:
    """What is on the topic for this cluster, in the order in which it holds; UserError where there is no topic."""
    newest = {message.key: message.value for message in read_topic(connection, TOPIC)}
    out = []
    for value in newest.values():
        try:
            record = decode(value, TOPIC)
        except WireError:
            continue  # a dead letter of the writer's
        if not isinstance(record, Model) or record.cluster != connection.cluster:
            continue
        try:
            out.append(Published(record, publication(record)))
        except ModelError as error:
            out.append(Published(record, None, str(error)))
    return sorted(out, key=lambda one: (one.record.ts_ms, one.record.name))


def usable(known: Sequence[Published]) -> list[Publication]:
    """Those that workers go by."""
    return [one.found for one in known if one.found is not None]


def publish(
    connection: Connection, forest: Forest | None, from_ms: int, known: Sequence[Published], instead: str = ""
) -> Model:
    """Let `forest` (None: each worker's own) score the cluster from the first tick at or after `from_ms` on, and
    return what was published; `instead` is the name of a publication that this one replaces.

    Raises UserError where it cannot be one message or the broker did not take it.
    """
    payload = b"" if forest is None else forest.to_bytes()
    if len(payload) > MAX_MESSAGE_BYTES - TICK_MS:
        raise UserError(
            f"model {OWN if forest is None else forest.name}: {len(payload)} bytes, a message takes "
            f"{MAX_MESSAGE_BYTES}: train it with fewer trees"
        )
    if not 0 <= from_ms <= LAST_MS - TICK_MS:
        raise UserError(f"a model from {from_ms} ms on: no time between 1970 and 2100")
    record = Model(
        cluster=connection.cluster,
        ts_ms=-(-from_ms // TICK_MS) * TICK_MS,
        name=instead or _place(known),
        model=OWN if forest is None else forest.name,
        payload=payload,
    )
    put(connection, record, f"model {record.model} was not published")
    return record


def before(known: Sequence[Published], name: str) -> tuple[Publication, Forest | None]:
    """The newest publication, and what to go back to from it: the model `name`, or "" the one before it.

    Raises UserError where nothing was published, or no such model is kept.
    """
    line = usable(known)
    if not line:
        raise UserError("no model was published: every worker scores by the one it was started with")
    newest, others = line[-1], [one for one in reversed(line[:-1]) if _model(one) != _model(line[-1])]
    if not name:
        return newest, others[0].forest if others else None
    if name == OWN:
        return newest, None
    chosen = next((one for one in line if _model(one) == name), None)
    if chosen is None:
        kept = sorted({_model(one) for one in line} | {OWN})
        raise UserError(f"no model {name!r} is kept; there are {', '.join(kept)}")
    return newest, chosen.forest


def states(known: Sequence[Published], now_ms: int) -> list[str]:
    """A word on each: what it is to the scores of now."""
    now = in_force(usable(known), now_ms)
    return [
        "refused"
        if one.found is None
        else "in force"
        if one.found is now
        else "to come"
        if one.record.ts_ms > now_ms
        else "over"
        for one in known
    ]


def _model(one: Publication) -> str:
    return OWN if one.forest is None else one.forest.name


def _place(known: Sequence[Published]) -> str:
    """A name that is free, or the one of what is oldest."""
    names = [f"place-{number}" for number in range(KEPT)]
    taken = [one.record.name for one in known if one.record.name in names]
    return next((name for name in names if name not in taken), "") or taken[0]
