"""What every detector must hold, whatever it detects; the tests run each detector through all of it.

A detector comes as a `Probe`, which hides the shape of its methods, and as a `Case` with inputs to try it on. Each
check raises AssertionError with a sentence.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from schemas.codec import encode
from schemas.features import Baselines, Features
from schemas.finding import Finding
from schemas.matrix import Matrix
from schemas.record import Record

Saved = Sequence[bytes | None]


class Probe(Protocol):
    """A detector from outside: everything it says to one input, and its state."""

    def feed(self, item: Any) -> Sequence[Record]: ...
    def save(self) -> Saved: ...
    def restore(self, saved: Saved) -> Sequence[Record]: ...


class Case(NamedTuple):
    """One detector and its inputs, in order. `steady` is a healthy constant, `lively` has noise and trouble, both long
    enough to warm up. `blank` makes all readings of an input missing, `shuffle` puts its rows in another order.
    `limit_bytes` bounds the saved state."""

    make: Callable[[], Probe]
    steady: Sequence[Any]
    lively: Sequence[Any]
    blank: Callable[[Any], Any]
    shuffle: Callable[[Any, np.random.Generator], Any]
    limit_bytes: int


def is_deterministic(case: Case) -> None:
    """The same input twice gives the same words."""
    assert run(case.make(), case.lively) == run(case.make(), case.lively), "two runs over one input differ"


def leaves_input_alone(case: Case) -> None:
    """Inputs are read, never changed."""
    probe = case.make()
    for item in case.lively:
        before = encode(item)
        probe.feed(item)
        assert encode(item) == before, "an input was changed"


def survives_missing_readings(case: Case) -> None:
    """NaN everywhere, from the first input on or later, is data: no error, nothing that cannot be encoded."""
    run(case.make(), [case.blank(item) for item in case.lively])
    half = len(case.lively) // 2
    run(case.make(), [*case.lively[:half], *(case.blank(item) for item in case.lively[half:])])
    run(case.make(), [case.blank(item) if i % 3 else item for i, item in enumerate(case.lively)])


def ignores_the_order_of_rows(case: Case) -> None:
    """Rows in another order give the same words about the same subjects."""
    random = np.random.default_rng(7)
    shuffled = [case.shuffle(item, random) for item in case.lively]
    assert run(case.make(), shuffled) == run(case.make(), case.lively), "the order of rows changes what is said"


def ignores_repeats(case: Case) -> None:
    """An input that comes again says nothing and changes nothing."""
    once, twice = case.make(), case.make()
    for item in case.lively:
        assert run(twice, [item]) == run(once, [item]), "a repeat changed what follows"
        assert not twice.feed(item), "a repeat was answered"


def continues_identically(case: Case) -> None:
    """Saved and restored anywhere, the words go on as if nothing had happened, and what was open is repeated as it was
    said last."""
    for cut in np.linspace(0, len(case.lively), 5, dtype=int)[1:-1].tolist():
        whole, first = case.make(), case.make()
        said = [record for item in case.lively[:cut] for record in first.feed(item)]
        run(whole, case.lively[:cut])
        second = case.make()
        known = {encode(record) for record in said}
        assert all(encode(record) in known for record in second.restore(first.save())), "a repeat that was never said"
        rest = case.lively[cut:]
        assert run(second, rest) == run(whole, rest), f"restored after {cut} inputs, the words differ"


def is_silent_on_a_constant(case: Case) -> None:
    """Health that does not change opens nothing."""
    probe = case.make()
    said = [record for item in case.steady for record in probe.feed(item) if isinstance(record, Finding)]
    assert not said, f"a healthy constant led to: {said[0].summary}"


def has_bounded_state(case: Case) -> None:
    """The saved state stays below its limit and stops growing."""
    probe = case.make()
    sizes = []
    for item in (*case.steady, *case.lively):
        probe.feed(item)
        sizes.append(sum(len(part or b"") for part in probe.save()))
    assert max(sizes) <= case.limit_bytes, f"state of {max(sizes)} bytes, {case.limit_bytes} allowed"
    half = len(case.steady) // 2
    assert max(sizes[half : len(case.steady)]) <= sizes[half] * 1.1 + 64, "state grows on a constant"


CHECKS: dict[str, Callable[[Case], None]] = {
    check.__name__: check
    for check in (
        is_deterministic,
        leaves_input_alone,
        survives_missing_readings,
        ignores_the_order_of_rows,
        ignores_repeats,
        continues_identically,
        is_silent_on_a_constant,
        has_bounded_state,
    )
}


def run(probe: Probe, items: Sequence[Any]) -> list[list[bytes]]:
    """What the probe says to each input, as bytes, rows in the order of their names."""
    return [sorted(encode(_sorted(record)) for record in probe.feed(item)) for item in items]


def _sorted(record: Record) -> Record:
    if isinstance(record, Features):
        return msgspec.structs.replace(
            record,
            gpus=tuple(sorted(record.gpus, key=lambda gpu: gpu.uuid)),
            z=_by_name(record.z),
            readings=_by_name(record.readings),
            centres=_by_name(record.centres),
        )
    if isinstance(record, Baselines):
        return msgspec.structs.replace(record, centre=_by_name(record.centre), spread=_by_name(record.spread))
    return record


def _by_name(matrix: Matrix) -> Matrix:
    order = sorted(range(len(matrix.rows)), key=lambda i: matrix.rows[i])
    return Matrix.of([matrix.rows[i] for i in order], matrix.columns, matrix.values()[order])
