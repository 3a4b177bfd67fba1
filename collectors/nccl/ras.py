"""Answers of NCCL's RAS client: JSON (NCCL 2.28.7 and later), text (before), MONITOR events, diagnostics.

2.28.7 to 2.29.1 forget a comma exactly where a rank is missing: such JSON is repaired. Times are the node's local ones
without a zone and are taken as UTC. What cannot be (a rank outside its communicator) is left out and said.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from detectors.hang.ras import Absent, Communicator, Member, Process, Snapshot

MOST_BYTES = 64 << 20
MOST_RANKS = 1 << 20

_COMMA = re.compile(r'([\d"el])(\s*\n\s*)("[^"\n]*"\s*:)')
_JSON = re.compile(rb'"(communicators(_count)?|missing_ranks(_count)?)"\s*:|"event"\s*:\s*"PEER_')
_TEXT = re.compile(
    rb"^(Job summary\s*$|Communicators\.\.\. \(|#\d+-\d+ \([0-9a-f]+\)|\S+:\d+ NCCL DIAG |\[[^]]*\] PEER_\w+:)", re.M
)


class BadRas(ValueError):
    """The bytes are no answer of RAS; the text is one line."""


class Ras(NamedTuple):
    """What was in one file or answer: snapshots in its order, and lines for the reader."""

    snapshots: list[Snapshot]
    notes: list[str]


def looks_like(start: bytes) -> bool:
    """Whether a file that starts like this is an answer of RAS."""
    return bool(_JSON.search(start) if start.lstrip()[:1] == b"{" else _TEXT.search(start))


def parse(data: bytes) -> Ras:
    """Everything in one answer, or in several written one after the other. Raises BadRas where there is nothing."""
    if len(data) > MOST_BYTES:
        raise BadRas(f"{len(data)} bytes; at most {MOST_BYTES} are read")
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    found = _json(text) if text.startswith("{") else _text(text)
    if not found.snapshots and not found.notes:
        raise BadRas("no communicator, event or diagnostics of NCCL's RAS in it")
    return found


def _json(text: str) -> Ras:
    """JSON objects back to back, as `ncclras -f json` and its MONITOR mode print them."""
    found = Ras([], [])
    decoder, at, repaired = json.JSONDecoder(), 0, False
    while at < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            if not repaired:
                text, repaired = text[:at] + _COMMA.sub(r"\1,\2\3", text[at:]), True
                continue
            if not found.snapshots:
                raise BadRas(f"broken JSON: {error}") from None
            found.notes.append(f"broken JSON after {len(found.snapshots)} answers: {error}")
            break
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if not isinstance(document, dict):
            continue
        if isinstance(document.get("communicators"), list):
            found.snapshots.append(_snapshot(document, found.notes))
        elif str(document.get("event", "")).startswith("PEER_"):
            found.snapshots.append(_event(document))
    if repaired and found.snapshots:
        found.notes.append("invalid JSON (a missing comma, as NCCL 2.28.7 to 2.29.1 write it) was repaired")
    return found


def _snapshot(document: Mapping[str, Any], notes: list[str]) -> Snapshot:
    communicators = []
    for c in document["communicators"]:
        if not isinstance(c, dict):
            continue
        size = _natural(c.get("size")) or 0
        id_ = str(c.get("hash", ""))[:32]
        members = [m for m in (_member(r) for r in _dicts(c.get("ranks"))) if m is not None]
        absent = [a for a in (_absent(r) for r in _dicts(c.get("missing_ranks"))) if a is not None]
        wrong = sum(m.rank >= size for m in members) + sum(a.rank >= size for a in absent)
        if wrong:
            notes.append(f"communicator {id_} of {size}: {wrong} ranks that cannot be were left out")
        communicators.append(
            Communicator(
                id_, size, tuple(m for m in members if m.rank < size), tuple(a for a in absent if a.rank < size)
            )
        )
    return Snapshot(_moment(document.get("timestamp")), tuple(communicators), (), str(document.get("nccl_version", "")))


def _member(row: Mapping[str, Any]) -> Member | None:
    rank, status, counts = _natural(row.get("rank")), _dict(row.get("status")), _dict(row.get("collective_counts"))
    if rank is None:
        return None
    ending = any(status.get(name) for name in ("finalize_called", "destroy_flag", "abort_flag"))
    numbers = {str(name): number for name, count in counts.items() if (number := _natural(count)) is not None}
    return Member(
        rank,
        _process(row),
        numbers,
        not ending and not status.get("init_state"),
        _natural(status.get("async_error")) or 0,
    )


def _absent(row: Mapping[str, Any]) -> Absent | None:
    rank = _natural(row.get("rank"))
    return (
        None if rank is None else Absent(rank, _process(row), _dict(row.get("status")).get("considered_dead") is True)
    )


def _event(document: Mapping[str, Any]) -> Snapshot:
    """One MONITOR event: only a death says something by itself."""
    peer, event = _dict(document.get("peer")), str(document.get("event"))
    dead = event in ("PEER_DEAD", "PEER_TIMEOUT_DEAD")
    process = _process(peer)
    words = f"{event}: process {process[1]} on {process[0]} {document.get('details') or ''}".strip()[:200]
    return Snapshot(_moment(document.get("timestamp")), (), ((process, words),) if dead else ())


def _process(row: Mapping[str, Any]) -> Process:
    return str(row.get("host", ""))[:64], _natural(row.get("pid")) or 0


_HEADING = re.compile(r"^(NCCL version |Job summary|Communicators\.\.\. \(|Errors\s*$|Warnings\s*$)")
_ROW = re.compile(
    r"^\s*(\d+)\s+\d+\s+\S+\s+\S+\s+(\S+)\s+\S+\s+(RUNNING|INIT|FINALIZE|ABORT|NOCOMM|UNKNOWN)\s+(\S+)\s*$"
)
_COMMUNICATOR = re.compile(r"^#(\d+)-\d+ \(([0-9a-fA-F]+)\) (\w+)")
_TALLY = re.compile(r"^\s+(\d+) ranks? (?:has|have) launched up to operation (\d+)")
_FUNCTION = re.compile(r"different (\w+) operation counts")
_RANK = re.compile(r"^\s+Rank (\d+) -- GPU \S+ managed by process (\d+) on node (\S+)")
_MISSING = re.compile(r"^\s+The missing ranks?: ([\d, ]+)")
_PROCESS = re.compile(r"^\s+Process (\d+) on node (\S+) managing")
_PEER = re.compile(r"^\[([^]]*)\] (PEER_\w+): Process (\d+) on node (\S+)(.*)")
_DIAGNOSTIC = re.compile(r"^\S+ NCCL DIAG (.*)")
_FRAME = re.compile(r"=+ |RAS diagnostics completed")


def _text(text: str) -> Ras:
    found = Ras([], [])
    fine = 0
    for lines in _parts(text):
        part = _Part(lines)
        if part.communicators or part.tables:
            found.snapshots.append(Snapshot(None, tuple(part.communicators), (), part.version))
    for line in text.splitlines():
        if peer := _PEER.match(line):
            at, event, pid, host, more = peer.groups()
            process = (host[:64], _natural(pid) or 0)
            words = f"{event}: process {pid} on {host}{more}"[:200]
            dead = event in ("PEER_DEAD", "PEER_TIMEOUT_DEAD")
            found.snapshots.append(Snapshot(_moment(at), (), ((process, words),) if dead else ()))
        elif said := _DIAGNOSTIC.match(line):
            if said.group(1).startswith("[OK]"):
                fine += 1
            elif not _FRAME.match(said.group(1)):
                found.notes.append(f"diagnostics: {said.group(1)}"[:200])
    if fine:
        found.notes.append(f"diagnostics: {fine} checks are OK")
    return found


def _parts(text: str) -> Iterator[list[str]]:
    """The text's answers: one ends where a heading comes that it has had already, or one that comes before."""
    order = ("NCCL", "Job", "Comm", "Erro", "Warn")
    lines: list[str] = []
    reached = -1
    for line in text.splitlines():
        if _HEADING.match(line):
            place = next(i for i, name in enumerate(order) if line.startswith(name))
            if place <= reached and lines:
                yield lines
                lines = []
            reached = place
        lines.append(line)
    if lines:
        yield lines


class _Part:
    """One text answer."""

    def __init__(self, lines: list[str]) -> None:
        self.version, self.tables = "", 0
        self.communicators: list[Communicator] = []
        self._running: dict[str, tuple[int, bool]] = {}
        self._dead: set[Process] = set()
        self._known: list[Process] = []
        blocks: list[tuple[tuple[str, str, str], list[str]]] = []
        section = ""
        for line in lines:
            if line.startswith("NCCL version "):
                self.version = line.split()[2] if len(line.split()) > 2 else ""
            elif row := _ROW.match(line):
                self.tables += 1
                size = _natural(row.group(2).rpartition("-")[2]) or 0
                self._running[row.group(1)] = (size, row.group(3) == "RUNNING")
            elif head := _COMMUNICATOR.match(line):
                blocks.append(((head.group(1), head.group(2), head.group(3)), []))
                section = ""
            elif re.match(r"^[A-Z]+\s*$", line):
                section = line.strip()
            elif process := _PROCESS.match(line):
                key = (process.group(2)[:64], int(process.group(1)) if len(process.group(1)) < 12 else 0)
                self._known.append(key)
                if section == "DEAD":
                    self._dead.add(key)
            elif blocks and line.strip():
                blocks[-1][1].append(line)
        for head_, body in blocks:
            communicator = self._communicator(head_, body)
            if communicator is not None:
                self.communicators.append(communicator)

    def _communicator(self, head: tuple[str, str, str], body: list[str]) -> Communicator | None:
        group, hash_, what = head
        size, running = self._running.get(group, (0, True))
        if what == "INCOMPLETE":
            return self._incomplete(hash_, size, body)
        return self._mismatch(hash_, running, body) if what == "MISMATCH" else None

    def _incomplete(self, hash_: str, size: int, body: list[str]) -> Communicator | None:
        ranks: list[tuple[int, Process]] = []
        for line in body:
            if rank := _RANK.match(line):
                ranks.append((int(rank.group(1)[:7]), (rank.group(3)[:64], int(rank.group(2)[:10]))))
            elif missing := _MISSING.match(line):
                listed = [int(n[:7]) for n in re.findall(r"\d+", missing.group(1))]
                one = len(listed) == len(self._known) == 1
                ranks += [(n, self._known[0] if one else ("", -1 - n)) for n in listed]
        kept = [(rank, process) for rank, process in ranks if 0 <= rank < (size or MOST_RANKS)]
        if not kept:
            return None
        absent = tuple(Absent(rank, process, process in self._dead) for rank, process in kept)
        return Communicator("0x" + hash_, max(size, *(rank + 1 for rank, _ in kept)), (), absent)

    def _mismatch(self, hash_: str, running: bool, body: list[str]) -> Communicator | None:
        """Ranks are listed only of a minority; where one number's ranks are not, they are all the others."""
        function, size = "collective", 0
        tallies: list[tuple[int, int, dict[int, Process]]] = []
        for line in body:
            if found := _FUNCTION.search(line):
                function = found.group(1)
            elif tally := _TALLY.match(line):
                tallies.append((int(tally.group(1)[:7]), int(tally.group(2)[:18]), {}))
                size += tallies[-1][0]
            elif (rank := _RANK.match(line)) and tallies:
                tallies[-1][2][int(rank.group(1)[:7])] = (rank.group(3)[:64], int(rank.group(2)[:10]))
        unlisted = [t for t in tallies if len(t[2]) < t[0]]
        if not tallies or len(unlisted) > 1 or size > MOST_RANKS:
            return None
        listed = {rank for _, _, ranks in tallies for rank in ranks}
        others = dict.fromkeys(rank for rank in range(size) if rank not in listed)
        members = []
        for number, count, ranks in tallies:
            named = ranks if len(ranks) >= number else {rank: ("", -1 - rank) for rank in others} | ranks
            members += [Member(rank, process, {function: count}, running) for rank, process in named.items()]
        return Communicator("0x" + hash_, size, tuple(m for m in members if m.rank < size))


def _moment(value: object) -> int | None:
    try:
        moment = datetime.strptime(str(value)[:19].replace("T", " "), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    ms = int(moment.timestamp() * 1000)
    return ms if ms >= 0 else None


def _natural(value: object) -> int | None:
    if isinstance(value, str) and len(value) < 19 and re.fullmatch("[0-9]+", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
