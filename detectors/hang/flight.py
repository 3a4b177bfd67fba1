"""PyTorch Flight Recorder dumps of one job: where it hangs, and who did not come.

Every rank's dump says how far each of its process groups got (enqueued, started, completed) and which operations are
open. From that follows who waits for whom; `detectors.hang.waits` gives where the waiting ends. A dump is no proof of
guilt by being absent, and nothing rests on "started", which is recorded only where timing is on.
"""

from collections.abc import Sequence

import msgspec

from detectors.hang.evidence import Hang, names
from detectors.hang.flight_dump import Dump
from detectors.hang.flight_match import TOGETHER, collective, mismatch
from detectors.hang.flight_wait import Wait, members, waits_of
from detectors.hang.flight_words import called, label_of, no_dumps, own_words, spoken
from detectors.hang.waits import ends, waiters

FEW = 4
"""Ranks without a dump are blamed (for want of others) only where they are at most one in four of their group."""


def judge(dumps: Sequence[Dump]) -> list[Hang]:
    """The standstills that the dumps of one job prove; empty where all that is open may just be in flight.

    One dump a rank. With a single rank's dump nothing can be said of the others, so nothing is.
    """
    if any(0 < dump.written_ms < dump.newest_ms for dump in dumps):
        # The files' times are not those of the dumps: an archive set them.
        dumps = [msgspec.structs.replace(dump, written_ms=0) for dump in dumps]
    by_rank = _aligned({dump.rank: dump for dump in dumps if dump.rank is not None})
    if len(by_rank) < 2:
        return []
    wrong = mismatch(by_rank)
    if wrong is not None:
        return [
            Hang(
                "collective_mismatch",
                wrong.ranks,
                wrong.label,
                0.95 if wrong.ranks else 0.85,
                None,
                wrong.members - len(wrong.ranks),
                wrong.created_ms,
                wrong.summary,
                wrong.evidence,
            )
        ]
    waits = list(waits_of(by_rank))
    if not waits:
        return []
    edges: dict[int, set[int]] = {}
    for wait in waits:
        # Who left no dump may be what this rank waits for: then it is no end itself.
        edges.setdefault(wait.rank, set()).update(wait.absent | wait.unknown)
    stuck = {rank for rank in _stuck(by_rank) if _others_wait(by_rank, waits, rank)}
    for rank in stuck:
        # What its own GPU has not finished, while its peers have, is not for want of others.
        edges.pop(rank, None)
    found = ends(edges)
    proven = {rank for wait in waits for rank in wait.absent}
    single = {rank for end in found if len(end) == 1 for rank in end if rank in proven}
    single |= {rank for rank in stuck if _awaited(edges, rank)}
    if single:
        return _culprits(by_rank, waits, single, stuck)
    rings = [end for end in found if len(end) > 1]
    if held := _held_up(waits, rings):
        return _culprits(by_rank, waits, held, stuck)
    if rings:
        return [_deadlock(waits, edges, ring) for ring in rings]
    if stuck:
        return _culprits(by_rank, waits, stuck, stuck)
    return _without_dump(by_rank, waits) or _all_inside(by_rank, waits) or _elsewhere(by_rank, waits)


def _aligned(dumps: dict[int, Dump]) -> dict[int, Dump]:
    """The dumps with one key for each group: one that tells no ranks (Gloo's default group, in some processes) is the
    group of that name whose ranks others tell, where there is only one."""
    told: dict[str, set[tuple[str, tuple[int, ...]]]] = {}
    for dump in dumps.values():
        for group in dump.groups.values():
            if group.ranks:
                told.setdefault(group.label, set()).add((group.key, group.ranks))
    out = {}
    for rank, dump in dumps.items():
        names = {g.key: next(iter(told[g.label])) for g in dump.groups.values() if len(told.get(g.label, ())) == 1}
        names = {key: name for key, name in names.items() if key != name[0] and not dump.groups[key].ranks}
        if names:
            groups = [
                msgspec.structs.replace(g, key=names[g.key][0], ranks=names[g.key][1]) if g.key in names else g
                for g in dump.groups.values()
            ]
            ops = tuple(
                msgspec.structs.replace(o, group=names[o.group][0]) if o.group in names else o for o in dump.ops
            )
            dump = msgspec.structs.replace(dump, groups={g.key: g for g in groups}, ops=ops)
        out[rank] = dump
    return out


def _held_up(waits: list[Wait], rings: list[frozenset[int]]) -> set[int]:
    """Who holds up a ring that closes only over sends and receives: these are posted ahead, so a rank that is stuck in
    its own process may have one open. In the collectives alone the waiting then ends at it."""
    inside = set().union(*rings)
    edges: dict[int, set[int]] = {}
    for wait in waits:
        if not wait.op.p2p and wait.rank in inside:
            edges.setdefault(wait.rank, set()).update(wait.absent)
    held = {rank for end in ends(edges) if len(end) == 1 for rank in end if rank in inside}
    return held if len(held) * 2 <= len(inside) else set()


def _others_wait(dumps: dict[int, Dump], waits: list[Wait], rank: int) -> bool:
    """Whether anybody else is inside something that this rank is part of. Else it is only the last to finish: dumps
    are not written at one moment."""
    return any(
        w.rank != rank and (w.op.peer == rank if w.op.p2p else rank in members(dumps, w.op.group)) for w in waits
    )


def _stuck(dumps: dict[int, Dump]) -> set[int]:
    """Ranks whose GPU has not done what it was given while their peers' GPUs have: they entered an operation that
    others of the group have finished, or (with timing on) never started one that others of the group are inside.

    Groups with point-to-point traffic are left out: pipeline stages differ by design. A minority only.
    """
    stuck: set[int] = set()
    mixed = {op.group for dump in dumps.values() for op in dump.ops if op.p2p}
    for key in sorted({key for dump in dumps.values() for key in dump.groups} - mixed):
        states = {rank: dump.groups[key] for rank, dump in dumps.items() if key in dump.groups}
        open_ = {r: s for r, s in states.items() if _number(s.enqueued) > _number(s.completed) >= 0}
        most = max((_number(s.completed) for s in states.values()), default=-1)
        late = {r for r, s in open_.items() if _number(s.completed) < most and _is_open(dumps[r], key)}
        if not late and any(_number(s.started) > 0 for s in states.values()):
            inside = {r for r, s in open_.items() if _number(s.started) > _number(s.completed)}
            next_ = min((_number(states[r].started) for r in inside), default=-1)
            late = {
                r
                for r, s in open_.items()
                if r not in inside and _number(s.enqueued) >= next_ > 0 and _is_open(dumps[r], key)
            }
        if late and len(late) <= len(states) // 2:
            stuck |= late
    return stuck


def _is_open(dump: Dump, group: str) -> bool:
    """Whether the group's oldest open operation is one that its peers cannot finish alone."""
    open_ = [op for op in dump.ops if op.group == group and not op.done and not op.p2p]
    return bool(open_) and collective(min(open_, key=lambda op: op.seq)) in TOGETHER


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _awaited(edges: dict[int, set[int]], rank: int) -> bool:
    return any(rank in others for others in edges.values())


def _culprits(dumps: dict[int, Dump], waits: list[Wait], who: set[int], stuck: set[int]) -> list[Hang]:
    """One hang per cause: GPUs that do not finish, and processes that do not come."""
    found: list[Hang] = []
    for cause, runner_up, ranks in (
        ("gpu_stuck", "transport_stalled", who & stuck),
        ("not_entered", "python_stall", who - stuck),
    ):
        if not ranks:
            continue
        mine = [w for w in waits if w.absent & ranks]
        pool = mine or [w for w in waits if w.rank in ranks]
        first = min(pool, key=lambda w: (w.op.p2p, w.op.created_ms, w.op.seq, w.rank))
        onset_ms = min(w.op.created_ms for w in pool)
        waiting = {w.rank for w in waits} - ranks
        what = "did not finish on the GPU of" if cause == "gpu_stuck" else "was not entered by"
        label = label_of(dumps, first.op.group)
        summary = f"job stands still: {called(first.op)} of {label} {what} {names(ranks)}"
        found.append(
            Hang(
                cause,  # type: ignore[arg-type]
                tuple(sorted(ranks)),
                label,
                0.9,
                runner_up,  # type: ignore[arg-type]
                len(waiting),
                onset_ms,
                f"{summary}; {len(waiting)} rank{'s wait' if len(waiting) != 1 else ' waits'}",
                (*spoken(dumps, mine, ranks), *own_words(dumps, ranks, stuck), *no_dumps(dumps)),
            )
        )
    return found


def _deadlock(waits: list[Wait], edges: dict[int, set[int]], ring: frozenset[int]) -> Hang:
    inside = [w for w in waits if w.rank in ring and w.absent & ring]
    groups = sorted({w.op.group for w in inside})
    first = min(inside, key=lambda w: w.op.created_ms)
    sentences = [
        f"rank {w.rank} waits in {called(w.op)} of group {w.op.group} for {names(w.absent & ring)}"
        for w in sorted(inside, key=lambda w: (w.op.created_ms, w.rank))
    ]
    return Hang(
        "communicator_deadlock",
        (),
        " and ".join(groups),
        0.85,
        "collective_mismatch",
        len(ring | waiters(edges, ring)),
        first.op.created_ms,
        f"job stands still: {names(ring)} wait for each other in groups {' and '.join(groups)}",
        tuple(sentences[:6]),
    )


def _without_dump(dumps: dict[int, Dump], waits: list[Wait]) -> list[Hang]:
    """Everybody with a dump is inside, and a few members have none: they are what is left."""
    ranks: set[int] = set()
    for w in waits:
        if w.unknown and len(w.unknown) <= max(1, len(members(dumps, w.op.group)) // FEW):
            ranks |= w.unknown
    world = {rank for dump in dumps.values() for group in dump.groups.values() for rank in group.ranks} | dumps.keys()
    if not ranks or len(ranks) > max(1, len(world) // FEW):
        return []
    first = min((w for w in waits if w.unknown & ranks), key=lambda w: w.op.created_ms)
    label = label_of(dumps, first.op.group)
    inside = {w.rank for w in waits if w.unknown & ranks}
    return [
        Hang(
            "process_gone",
            tuple(sorted(ranks)),
            label,
            0.55,
            "not_entered",
            len(inside),
            first.op.created_ms,
            f"job stands still in {called(first.op)} of {label}: all others are in it, {names(ranks)} left no dump",
            (
                f"{names(inside)} wait in {called(first.op)} of {label}",
                f"no dump of {names(ranks)}: gone, or stuck where it cannot dump",
            ),
        )
    ]


def _all_inside(dumps: dict[int, Dump], waits: list[Wait]) -> list[Hang]:
    """All members are in the same operation and it does not end: what they wait for is the data."""
    whole = [w for w in waits if not w.op.p2p and not w.unknown and not w.absent]
    if not whole:
        return []
    first = min(whole, key=lambda w: (w.op.created_ms, w.op.seq))
    ranks = members(dumps, first.op.group)
    inside = {w.rank for w in whole if (w.op.group, w.op.seq) == (first.op.group, first.op.seq)}
    outside = {w.rank for w in waits if w.unknown or w.absent}
    if len(inside) < 2 or inside != set(ranks) or inside & outside:
        return []
    label = label_of(dumps, first.op.group)
    timed = any(w.op.started for w in whole)
    return [
        Hang(
            "transport_stalled",
            (),
            label,
            0.7 if timed else 0.55,
            "gpu_stuck",
            len(inside),
            first.op.created_ms,
            f"job stands still: all of {label} are in {called(first.op)} and it does not end",
            (
                f"{names(inside)} have entered {called(first.op)} of {label}; none has finished it",
                *no_dumps(dumps),
            ),
        )
    ]


def _elsewhere(dumps: dict[int, Dump], waits: list[Wait]) -> list[Hang]:
    """All waiting leads to ranks whose dumps are not here: it hangs, and nobody can be named."""
    blind = [w for w in waits if w.unknown]
    if len({w.rank for w in blind}) < 2:
        return []
    first = min(blind, key=lambda w: (w.op.p2p, w.op.created_ms, w.rank))
    waiting, unknown = {w.rank for w in waits}, set().union(*(w.unknown for w in blind))
    label = label_of(dumps, first.op.group)
    return [
        Hang(
            "unknown",
            (),
            label,
            0.5,
            "not_entered",
            len(waiting),
            first.op.created_ms,
            f"job stands still in {called(first.op)} of {label}: all that is known waits for ranks without a dump",
            (f"{names(waiting)} wait for {names(unknown)}, whose dumps are not here: who is at fault they would tell",),
        )
    ]
