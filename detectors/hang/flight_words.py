"""The sentences that a verdict on dumps rests on."""

from detectors.hang.evidence import names
from detectors.hang.flight_dump import Dump, Op
from detectors.hang.flight_wait import Wait


def spoken(dumps: dict[int, Dump], waits: list[Wait], ranks: set[int]) -> list[str]:
    """Which operations wait for the culprits, the oldest first: communicator, operation, sequence number, who is in."""
    groups: dict[tuple[int, str, str, tuple[int, ...]], list[Wait]] = {}
    for w in waits:
        groups.setdefault((w.op.seq, w.op.group, w.op.name, tuple(sorted(w.absent & ranks))), []).append(w)
    out = []
    for (seq, group, name, absent), some in sorted(groups.items(), key=_oldest):
        inside = names({w.rank for w in some})
        out.append(f"{name} number {seq} of {label_of(dumps, group)}: {inside} in it, {names(set(absent))} not")
    return out[:4]


def _oldest(group: tuple[object, list[Wait]]) -> tuple[bool, int]:
    return min((w.op.p2p, w.op.created_ms) for w in group[1])


def own_words(dumps: dict[int, Dump], ranks: set[int], stuck: set[int]) -> list[str]:
    """What the culprits' own dumps say."""
    out = []
    for rank in sorted(ranks)[:4]:
        open_ = [op for op in dumps[rank].ops if not op.done]
        if rank in stuck:
            oldest = min(open_, key=lambda op: op.created_ms)
            out.append(
                f"rank {rank} has {len(open_)} operations open, the oldest {called(oldest)} of "
                f"{label_of(dumps, oldest.group)}, which its peers have finished or are inside of"
            )
        elif not open_:
            out.append(f"rank {rank} has nothing open: its process does not come to the next operation")
    return out


def no_dumps(dumps: dict[int, Dump]) -> list[str]:
    """Which ranks of the world left no dump."""
    world = {rank for dump in dumps.values() for group in dump.groups.values() for rank in group.ranks}
    absent = world - dumps.keys()
    return [f"no dump of {names(absent)}: not judged"] if absent else []


def called(op: Op) -> str:
    """An operation by name and number."""
    return f"{op.name} number {op.seq}"


def label_of(dumps: dict[int, Dump], key: str) -> str:
    """A group in words."""
    return next((dump.groups[key].label for dump in dumps.values() if key in dump.groups), key)
