"""PyTorch Flight Recorder dumps: one file a rank, pickle or JSON; all of one job are judged together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from collectors.nccl.flight_recorder import parse
from collectors.nccl.plain_pickle import MOST_BYTES, Refused
from detectors.hang.flight_dump import Dump
from lockstep.analyze.files import DAMAGED, open_bytes
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
        input_.notes.append("not judged: neither the dump nor the file's name tells whose it is")
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


class Scene(msgspec.Struct):
    """What is about one job: its folders, and its dumps by rank."""

    folders: list[Path]
    dumps: dict[int, Dump]

    @property
    def name(self) -> str:
        return self.folders[0].name or str(self.folders[0])


def scenes(dumps: dict[Path, Dump]) -> list[Scene]:
    """The dumps by job: those of one folder belong together, and folders (one a node) that hold other ranks of the
    same world. Of several dumps of one rank the newest counts."""
    folders: dict[Path, dict[int, Dump]] = {}
    for path, dump in sorted(dumps.items()):
        ranks = folders.setdefault(path.parent, {})
        if dump.rank is not None and (dump.rank not in ranks or _age(dump) > _age(ranks[dump.rank])):
            ranks[dump.rank] = dump
    found: list[Scene] = []
    for folder, ranks in folders.items():
        for other in found:
            world = _world(other.dumps)
            if not other.dumps.keys() & ranks.keys() and len(world) > len(other.dumps) and world == _world(ranks):
                other.dumps.update(ranks)
                other.folders.append(folder)
                break
        else:
            found.append(Scene([folder], ranks))
    return found


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
    except DAMAGED as error:
        raise Refused("unreadable", f"cannot be read: {error}") from None
    return parse(data, path.name, written_ms)
