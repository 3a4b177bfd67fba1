"""Whether the ranks of a group called the same collective: name, sizes and type at equal sequence numbers.

Sizes are compared only where the operation demands equal ones: an all-to-all may be uneven, a root of a gather differs
from the others by design. What every rank has finished is left alone, whatever it was called.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from detectors.hang.flight_dump import Dump, Op

EQUAL_INPUT = frozenset(("all_reduce", "allreduce", "broadcast", "reduce"))
EQUAL_OUTPUT = frozenset(("reduce_scatter", "reducescatter"))
"""Operations whose elements per rank must be the same on all ranks: what goes in, or what comes out. An all-gather into
a list may be uneven (it is made of broadcasts), one into a single tensor may not."""

TOGETHER = EQUAL_OUTPUT | {
    "all_reduce", "allreduce", "all_gather", "allgather", "all_to_all", "alltoall", "barrier",
}  # fmt: skip
"""Operations that nobody can finish before everybody is inside; a broadcast's root, for one, may."""


class Mismatch(NamedTuple):
    """`ranks` called something else than most of their group; of two ranks both; empty where there is no majority."""

    ranks: tuple[int, ...]
    label: str
    members: int
    created_ms: int
    summary: str
    evidence: tuple[str, ...]


def mismatch(dumps: Mapping[int, Dump]) -> Mismatch | None:
    """The oldest mismatch of the job, or None."""
    calls: dict[tuple[str, int], dict[int, Op]] = {}
    for rank, dump in sorted(dumps.items()):
        for op in dump.ops:
            if not op.p2p:
                calls.setdefault((op.group, op.seq), {})[rank] = op
    found = []
    for (group, seq), ops in calls.items():
        if len(ops) < 2 or all(op.done for op in ops.values()):
            continue
        for how, of in WAYS:
            said = {rank: of(op) for rank, op in ops.items()}
            values = Counter(value for value in said.values() if value)
            if len(values) > 1:
                found.append((min(op.created_ms for op in ops.values()), group, seq, how, said, values))
                break
    if not found:
        return None
    created_ms, group, seq, how, said, values = min(found, key=lambda f: (f[0], f[2], f[1]))
    label = next(d.groups[group].label for d in dumps.values() if group in d.groups)
    (most, count), *_ = values.most_common()
    known = [rank for rank, value in said.items() if value]
    odd = tuple(sorted(rank for rank in known if said[rank] != most)) if count > len(known) / 2 else ()
    if len(known) == 2:
        odd = tuple(sorted(known))
    parts = []
    for value, same in values.most_common():
        parts.append(f"{_ranks([r for r in known if said[r] == value])} {how[same > 1]} {value}")
    return Mismatch(
        odd,
        label,
        len(said),
        created_ms,
        f"job stands still: ranks of {label} called different collectives at number {seq}: {', '.join(parts)}"[:280],
        tuple(f"operation {seq} of {label}: {part}" for part in parts[:4]),
    )


def collective(op: Op) -> str:
    """The collective behind a name: `_all_gather_base` and `all_gather` are one to NCCL.

    >>> collective(Op("g", 1, "_all_gather_base", 0, False))
    'all_gather'
    """
    name = op.name.removeprefix("_")
    for ending in ("_base", "_oop", "_into_tensor", "_tensor", "_single"):
        name = name.removesuffix(ending)
    return name


def _elements(op: Op) -> str:
    name = collective(op)
    even = name in EQUAL_INPUT or (name == "all_gather" and op.name != name)
    sizes = op.sizes_in if even else op.sizes_out if name in EQUAL_OUTPUT else ()
    total = 0
    for size in sizes:
        count = 1
        for extent in size:
            count *= extent
        total += count
    return f"{total} elements" if sizes else ""


def _type(op: Op) -> str:
    return op.dtypes[0] if op.dtypes and collective(op) in TOGETHER | EQUAL_INPUT else ""


WAYS: tuple[tuple[tuple[str, str], Callable[[Op], str]], ...] = (
    (("calls", "call"), collective),
    (("has sizes", "have sizes"), _elements),
    (("has type", "have type"), _type),
)
"""How calls can differ, in words for one rank and for several, and what of them to compare."""


def _ranks(ranks: list[int]) -> str:
    more = f" and {len(ranks) - 6} more" if len(ranks) > 6 else ""
    return f"rank{'s' if len(ranks) != 1 else ''} {', '.join(map(str, ranks[:6]))}{more}"
