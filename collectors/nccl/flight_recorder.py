"""PyTorch Flight Recorder dumps (pickle or JSON, every layout so far) as `detectors.hang.flight_dump.Dump`.

Layouts: 2.x (`pg_config`, `pg_status`, `entries`), 1.x (`entries` with `seq_id`), and the bare list of entries before
that; NCCL's and Gloo's. The fields that are there decide, not the version. Stack frames are not kept: their paths are
private.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from collectors.nccl.plain_pickle import MOST_BYTES, Refused, loads
from detectors.hang.flight_dump import Dump, Group, Op

MOST_RANKS = 1 << 20
MOST_ENTRIES = 1_000_000
MOST_TENSORS, MOST_EXTENTS = 256, 16
"""How much of one operation is looked at: lists may refer to one list many times."""

PICKLE = re.compile(rb"\x80[\x02-\x05]")

_NAMED = re.compile(r"rank[_.-]?(\d{1,7})", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_FIELDS = re.compile(rb'"(pg_config|pg_status|collective_seq_id|p2p_seq_id|profiling_name)"\s*:')
_PEER = re.compile(r"^(send|recv)\s+(\d{1,7})\s*(->|<-)\s*(\d{1,7})\b")


def looks_like(start: bytes) -> bool:
    """Whether a file that starts like this may be a dump: any pickle, or JSON with a dump's fields."""
    return bool(PICKLE.match(start)) or (start.lstrip()[:1] in (b"{", b"[") and bool(_FIELDS.search(start)))


def parse(data: bytes, name: str = "", written_ms: int = 0) -> Dump:
    """The dump in a file's bytes. `name` is the file's: a number in it is the rank where the dump does not tell.

    Raises Refused (unsafe, truncated, broken, too_large, no_dump): one reason, one line.
    """
    document = _document(data)
    entries = document if isinstance(document, list) else document.get("entries")
    if not isinstance(entries, list):
        entries = []
        if not isinstance(document, dict) or not ({"pg_config", "pg_status"} & document.keys()):
            raise Refused("no_dump", "no Flight Recorder dump: neither entries nor process groups in it")
    if len(entries) > MOST_ENTRIES:
        raise Refused("too_large", f"{len(entries)} entries in one dump")
    top: Mapping[str, Any] = document if isinstance(document, dict) else {}
    rows = [row for row in entries if isinstance(row, dict)]
    if entries and not any("profiling_name" in row or "pg_id" in row or "state" in row for row in rows):
        raise Refused("no_dump", "no Flight Recorder dump: its entries are no operations")
    config = _config(top.get("pg_config"))
    status = _status(top.get("pg_status"))
    keys = _keys(rows, config, status)
    groups = {}
    numbers: dict[str, list[tuple[int, bool]]] = {}
    for row in rows:
        if not _is_p2p(row):
            numbers.setdefault(_id(row), []).append((_seq(row), _done(row)))
    for id_, (key, label, ranks) in keys.items():
        enqueued, started, completed = status.get(id_, (None, None, None))
        seqs = numbers.get(id_, [])
        if enqueued is None and seqs:
            enqueued = max(seq for seq, _ in seqs)
            completed = max((seq for seq, done in seqs if done), default=min(seq for seq, _ in seqs) - 1)
        groups[key] = Group(key, label, ranks, enqueued, started, completed)
    ops = tuple(_op(row, *keys[_id(row)], groups[keys[_id(row)][0]]) for row in rows)
    newest = max((_newest(row) for row in rows), default=0)
    return Dump(rank_of(top, config, name), groups, ops, written_ms, newest, str(top.get("version", ""))[:32])


def _document(data: bytes) -> dict[str, Any] | list[Any]:
    if PICKLE.match(data):
        found = loads(data)
    else:
        if len(data) > MOST_BYTES:
            raise Refused("too_large", f"a dump of {len(data)} bytes; at most {MOST_BYTES} are read")
        try:
            found = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            cut = "truncated" in str(error)
            raise Refused("truncated" if cut else "broken", f"no pickle and no JSON: {error}") from None
    if not isinstance(found, dict | list):
        raise Refused("no_dump", f"no Flight Recorder dump: a {type(found).__name__}")
    return found


def rank_of(document: Mapping[str, Any], config: Mapping[str, tuple[str, tuple[int, ...]]], name: str) -> int | None:
    """Whose dump it is: the only rank that is in all its groups, else what it says, else what the file's name says
    ("rank_3"), else the last number in the name that can be it. None where nothing tells."""
    lists = [set(ranks) for _, ranks in config.values() if ranks]
    common = set.intersection(*lists) if lists else set()
    if len(common) == 1:
        return next(iter(common))
    said = [
        _integer(document.get("rank")),
        *map(int, _NAMED.findall(name)),
        *map(_integer, _NUMBER.findall(name)[::-1]),
    ]
    return next((n for n in said if n is not None and 0 <= n < MOST_RANKS and (not common or n in common)), None)


def _config(value: object) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Description and ranks of every process group by name."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, group in value.items() if isinstance(value, dict) else ():
        if isinstance(group, dict):
            found[str(name)] = (str(group.get("desc", ""))[:128], _ranks(group.get("ranks")))
    return found


def _ranks(value: object) -> tuple[int, ...]:
    """Ranks from a list or from its printed form."""
    if isinstance(value, str):
        value = re.findall(r"\d{1,7}", value[: 8 * MOST_RANKS])
    if not isinstance(value, list) or len(value) > MOST_RANKS:
        return ()
    numbers = [_integer(item) for item in value]
    return tuple(n for n in numbers if n is not None and 0 <= n < MOST_RANKS)


def _status(value: object) -> dict[str, tuple[int | None, int | None, int | None]]:
    found = {}
    for id_, state in value.items() if isinstance(value, dict) else ():
        if isinstance(state, dict):
            numbers = [_integer(state.get(f"last_{what}_collective")) for what in ("enqueued", "started", "completed")]
            found[str(id_)] = (numbers[0], numbers[1], numbers[2])
    return found


def _keys(
    rows: Iterable[Mapping[str, Any]],
    config: Mapping[str, tuple[str, tuple[int, ...]]],
    status: Mapping[str, object],
) -> dict[str, tuple[str, str, tuple[int, ...]]]:
    """(key, label, ranks) of every group by its id in this dump, which differs from rank to rank.

    An entry names id and group together. For groups without an entry: names and ids in numeric order, one by one,
    where their numbers agree and no entry speaks against it.
    """
    names: dict[str, tuple[str, str]] = {}
    for row in rows:
        group = row.get("process_group")
        if isinstance(group, list) and group and isinstance(group[0], str | int):
            names[_id(row)] = (str(group[0]), str(group[1])[:128] if len(group) > 1 else "")
    if len(config) == len(status):
        paired = dict(zip(sorted(status, key=_order), sorted(config, key=_order), strict=True))
        if all(names[id_][0] in (paired.get(id_), "") for id_ in names if id_ in paired):
            for id_, name in paired.items():
                names.setdefault(id_, (name, config[name][0]))
    found = {}
    for id_ in {*map(_id, rows), *status}:
        name, desc = names.get(id_, (f"#{id_}", ""))
        known = config.get(name)
        if known is None and len(config) == 1 and "" in config and id_ == "0":
            known = config[""]  # Gloo's default group has no name in the configuration
        ranks = known[1] if known else ()
        desc = desc or (known[0] if known else "")
        label = f"{desc} ({name})" if desc and desc != name else f"group {name}"
        found[id_] = (f"{name}:{desc}:{','.join(map(str, ranks))}" if ranks else f"{name}:{desc}", label, ranks)
    return found


def _op(row: Mapping[str, Any], key: str, label: str, ranks: tuple[int, ...], group: Group) -> Op:
    name = str(row.get("profiling_name", ""))[:128]
    name = name.partition(":")[2] or name
    p2p, sends, peer = _is_p2p(row), False, None
    if found := _PEER.match(name):
        there = int(found.group(4))
        p2p, sends = True, found.group(1) == "send"
        peer = ranks[there] if there < len(ranks) else there
        name = f"{found.group(1)} {'to' if sends else 'from'} rank {peer}"
    seq = _seq(row)
    done = _done(row) or (not p2p and group.completed is not None and 0 < seq <= group.completed)
    return Op(
        key,
        seq,
        name,
        _milliseconds(row.get("time_created_ns")),
        done,
        row.get("state") == "started" or bool(row.get("time_discovered_started_ns")),
        p2p,
        sends,
        peer,
        _sizes(row.get("input_sizes")),
        _sizes(row.get("output_sizes")),
        _words(row.get("input_dtypes")),
        max(0, _integer(row.get("timeout_ms")) or 0),
    )


def _id(row: Mapping[str, Any]) -> str:
    return str(row.get("pg_id", 0))[:64]


def _is_p2p(row: Mapping[str, Any]) -> bool:
    return row.get("is_p2p") is True or bool(_PEER.match(str(row.get("profiling_name", "")).partition(":")[2]))


def _seq(row: Mapping[str, Any]) -> int:
    """The sequence number that counts for this operation, 0 where it has none."""
    names = ("p2p_seq_id", "seq_id") if _is_p2p(row) else ("collective_seq_id", "seq_id")
    return max(0, next((n for n in (_integer(row.get(name)) for name in names) if n is not None), 0))


def _done(row: Mapping[str, Any]) -> bool:
    return (
        row.get("state") == "completed" or row.get("retired") is True or bool(row.get("time_discovered_completed_ns"))
    )


def _newest(row: Mapping[str, Any]) -> int:
    names = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
    return max(_milliseconds(row.get(name)) for name in names)


def _milliseconds(value: object) -> int:
    number = _integer(value)
    return number // 1_000_000 if number is not None and 0 < number < 4_102_444_800_000_000_000 else 0


def _sizes(value: object) -> tuple[tuple[int, ...], ...]:
    found = []
    for size in value[:MOST_TENSORS] if isinstance(value, list) else ():
        extents = [_integer(extent) for extent in size[:MOST_EXTENTS]] if isinstance(size, list) else []
        found.append(tuple(extent for extent in extents if extent is not None and 0 <= extent < 1 << 62))
    return tuple(found)


def _words(value: object) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    return tuple(str(word)[:32] for word in listed[:MOST_TENSORS] if isinstance(word, str))


def _integer(value: object) -> int | None:
    """An integer that may have been written as a string; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else None
    if isinstance(value, str) and len(value) < 20 and re.fullmatch(r"-?[0-9]+", value):
        return int(value)
    return None


def _order(name: str) -> tuple[int, int, str]:
    number = _integer(name)
    return (0, number, "") if number is not None else (1, 0, name)
