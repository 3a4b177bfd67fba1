"""One rank's Flight Recorder dump, whatever file it came from."""

import msgspec


class Group(msgspec.Struct, frozen=True):
    """One process group as one rank sees it. `key` is the same on all ranks; numbers are PyTorch's sequence numbers
    (from 1), None where the dump does not tell."""

    key: str
    label: str
    ranks: tuple[int, ...] = ()
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None


class Op(msgspec.Struct, frozen=True):
    """One operation in a dump. `seq` counts within the group (point-to-point ones have their own count); `peer` is the
    other rank of a send or receive. Sizes are elements per tensor, in order."""

    group: str
    seq: int
    name: str
    created_ms: int
    done: bool
    started: bool = False
    p2p: bool = False
    sends: bool = False
    peer: int | None = None
    sizes_in: tuple[tuple[int, ...], ...] = ()
    sizes_out: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    timeout_ms: int = 0


class Dump(msgspec.Struct, frozen=True):
    """One rank's dump; `rank` is None where nobody knows whose it is. `written_ms` is when the file was written, 0
    where nobody knows; `newest_ms` the newest moment in it."""

    rank: int | None
    groups: dict[str, Group]
    ops: tuple[Op, ...]
    written_ms: int = 0
    newest_ms: int = 0
    version: str = ""
