"""PyTorch Flight Recorder dumps: one file a rank, pickle or JSON; all of one job are judged together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from collectors.flight_recorder import parse
from collectors.plain_pickle import MOST_BYTES, Refused
from detectors.flight import Dump
from lockstep.analyze.files import open_bytes
from lockstep.analyze.recording import Input
from runtime.errors import UserError


def load(input_: Input) -> Dump | None:
    """The dump in one file; None where it is refused, which is counted with its reason."""
    try:
        dump = _parse(input_.path)
    except Refused as refused:
        input_.skip(refused.reason)
        input_.notes.append(str(refused))
        return None
    input_.records = max(1, len(dump.ops))
    if dump.rank is None:
        input_.notes.append("neither the dump nor the file's name tells whose it is: not judged")
    return dump


def decoded(input_: Input) -> Iterator[dict[str, Any]]:
    """The state of every process group, then every operation. Raises UserError where the file is refused."""
    try:
        dump = _parse(input_.path)
    except Refused as refused:
        raise UserError(f"{input_.path}: {refused}") from None
    for group in dump.groups.values():
        yield {"event": "process_group", "rank": dump.rank, **msgspec.structs.asdict(group)}
    for op in dump.ops:
        yield {"event": "operation", "rank": dump.rank, **msgspec.structs.asdict(op)}


def jobs(dumps: dict[Path, Dump]) -> dict[str, list[Dump]]:
    """The dumps by job: those of one folder belong together, and folders (one a node) that hold other ranks of the
    same world. Of several dumps of one rank the newest counts."""
    folders: dict[Path, dict[int, Dump]] = {}
    for path, dump in sorted(dumps.items()):
        if dump.rank is not None:
            ranks = folders.setdefault(path.parent, {})
            known = ranks.get(dump.rank)
            if known is None or _age(dump) > _age(known):
                ranks[dump.rank] = dump
    merged: list[tuple[str, dict[int, Dump]]] = []
    for folder, ranks in folders.items():
        for _, other in merged:
            if not other.keys() & ranks.keys() and len(_world(other)) > len(other) and _world(other) == _world(ranks):
                other.update(ranks)
                break
        else:
            merged.append((str(folder), ranks))
    return {name: list(ranks.values()) for name, ranks in merged}


def _age(dump: Dump) -> tuple[int, int, int]:
    return dump.newest_ms, max((g.enqueued or 0 for g in dump.groups.values()), default=0), len(dump.ops)


def _world(dumps: dict[int, Dump]) -> tuple[int, ...]:
    """The widest group's ranks."""
    lists = (group.ranks for dump in dumps.values() for group in dump.groups.values())
    return max(lists, key=lambda ranks: (len(ranks), ranks), default=())


def _parse(path: Path) -> Dump:
    try:
        written_ms = int(path.stat().st_mtime * 1000)
        with open_bytes(path) as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        raise Refused("unreadable", f"cannot be read: {error}") from None
    return parse(data, path.name, written_ms)
