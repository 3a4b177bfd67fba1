"""Step times from a training process to the node's Lockstep agent: one file, no dependencies, Python 3.8 or newer.

Import it (`import lockstep`), or copy this file next to your training script. Without LOCKSTEP_STEPS_SOCKET or
LOCKSTEP_STEPS_DIR in the environment every call does nothing.

    for batch in lockstep.steps(loader):          # one line: step time, and the wait for data in it
        train(batch)

    with lockstep.step(tokens=8192) as step:      # or each phase by name: data, compute, comm, wait
        with step.phase("data"):
            batch = next(batches)
        with step.phase("compute"):
            loss(batch).backward()

    lockstep.report(step=17, step_us=412_000)     # or measured by yourself

It never raises, never blocks, and keeps at most PENDING lines: a training job must not notice whether anybody listens.
Times are the host's: a phase that only launches GPU work is short, and the one that first waits for the GPU is long.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, Callable, Iterable, Iterator, TypeVar  # noqa: UP035 (older Pythons)

__all__ = ["Step", "configure", "report", "status", "step", "steps"]

T = TypeVar("T")

PENDING = 256
"""Lines that wait for a reader that is away or a disk that is full; the oldest goes first."""

DATAGRAM_BYTES = 16 << 10
FILE_BYTES = 8 << 20
"""A file that is longer is begun anew; the one before is kept as FILE.old, so a process has at most twice this."""

LEAVE_S = 0.5
"""The most that the end of the process waits for its last lines to be written."""

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
TEXT = 200


class Step:
    """One training step, timed between `with` and its end; a step that raises is not reported."""

    def __init__(self, reporter: _Reporter, fields: dict[str, Any]) -> None:
        self._reporter, self._fields = reporter, fields
        self._times: dict[str, float] = {}
        self._begun = time.perf_counter()

    def __enter__(self) -> Step:
        self._begun = time.perf_counter()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.end()

    def phase(self, name: str) -> _Phase:
        """Times a part of the step; parts of the same name add up."""
        return _Phase(self._times, name)

    def end(self) -> None:
        """Report the step as of now."""
        took_us = (time.perf_counter() - self._begun) * 1e6
        times = {f"{name}_us": seconds * 1e6 for name, seconds in self._times.items()}
        self._reporter.report({**self._fields, **times, "step_us": took_us})


class _Phase:
    __slots__ = ("_begun", "_name", "_times")

    def __init__(self, times: dict[str, float], name: str) -> None:
        self._times, self._name, self._begun = times, name, 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._times[self._name] = self._times.get(self._name, 0.0) + time.perf_counter() - self._begun


class _Datagrams:
    """To a Unix datagram socket, from the thread that reports: such a send never waits."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def pump(self, pending: deque[bytes]) -> None:
        """Send what fits; OSError (nobody there, its queue is full) leaves the rest for the next time."""
        while pending:
            together: list[bytes] = []
            size = 0
            for line in list(pending):
                if together and size + len(line) > DATAGRAM_BYTES:
                    break
                together.append(line)
                size += len(line)
            self._socket.sendto(b"".join(together), self.path)
            for line in together:
                _taken(pending, line)

    def wake(self, pending: deque[bytes]) -> None:
        self.pump(pending)

    def leave(self) -> None:
        self._socket.close()

    forget = leave


class _File:
    """To a file of this process, by a thread of its own: a disk may make its writer wait."""

    def __init__(self, folder: str, pending: deque[bytes], opener: Callable[..., int] = os.open) -> None:
        os.makedirs(folder, exist_ok=True)
        self._folder = folder
        self.path = os.path.join(folder, f"steps-{socket.gethostname()}-pid{os.getpid()}{_namespace()}.jsonl")
        self._opener, self._pending = opener, pending
        self._descriptor, self._written, self._torn = -1, 0, False
        self._something, self._leaving = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="lockstep-steps", daemon=True)
        self._thread.start()

    def wake(self, pending: deque[bytes]) -> None:
        self._something.set()

    def leave(self) -> None:
        self._leaving = True
        self._something.set()
        self._thread.join(LEAVE_S)

    def forget(self) -> None:
        """In a forked child: there the thread is not, only the open file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _run(self) -> None:
        left = False
        while not left:
            self._something.wait()
            self._something.clear()
            left = self._leaving
            try:
                while self._pending:
                    line = self._pending[0]
                    self._write(line)
                    _taken(self._pending, line)
            except (OSError, IndexError):  # the disk is full or gone, or the line went meanwhile: with the next line
                pass

    def _write(self, line: bytes) -> None:
        if self._descriptor < 0 or self._written > FILE_BYTES or os.fstat(self._descriptor).st_nlink == 0:
            self._open()
        data = b"\n" + line if self._torn else line
        done = os.write(self._descriptor, data)
        self._written += done
        self._torn = data[done - 1 : done] != b"\n"
        if done < len(data):
            raise OSError("only a part was written")

    def _open(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            with suppress(FileNotFoundError):  # somebody tidied up
                os.replace(self.path, self.path + ".old")
        os.makedirs(self._folder, exist_ok=True)
        self._descriptor = self._opener(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._written, self._torn = 0, False


class _Reporter:
    """The lines of this process on their way; a fork begins with none, and with a transport of its own."""

    def __init__(self, environment: Any = os.environ) -> None:
        self._environment = environment
        self._told: dict[str, Any] = {}
        self._transport: _Datagrams | _File | None = None
        self.reset()

    def reset(self) -> None:
        """Begin anew, also in a forked child, whose locks and threads are not its own."""
        with suppress(Exception):
            if self._transport is not None:
                self._transport.forget()
        self._transport = None
        self._pending: deque[bytes] = deque(maxlen=PENDING)
        self._lock = threading.Lock()
        self._started = False
        self._off = ""
        self._rank: int | None = None
        self._count = 0
        self.reported = 0

    def configure(self, **told: Any) -> None:
        self.leave()
        self._told.update({name: value for name, value in told.items() if value is not None})
        self._transport = None
        self.reset()

    def report(self, fields: dict[str, Any]) -> None:
        try:
            if not self._started:
                self._start()
            if self._off:
                return
            line = self._line(fields)
            if line is None:
                return
            self.reported += 1
            self._pending.append(line)
            if self._lock.acquire(blocking=False):  # else another thread is sending, and takes this along
                try:
                    if self._transport is not None:
                        self._transport.wake(self._pending)
                finally:
                    self._lock.release()
        except Exception:  # nobody there, no room, no right: the job goes on
            return

    def _start(self) -> None:
        self._started = True
        try:
            told, environment = self._told, self._environment
            rank = told.get("rank", next((environment[name] for name in RANKS if environment.get(name)), ""))
            if not str(rank).isdecimal():
                self._off = f"rank unknown: set RANK, or call configure(rank=...) (one of {', '.join(RANKS)})"
                return
            self._rank = int(rank)
            where = told.get("socket") or environment.get("LOCKSTEP_STEPS_SOCKET")
            folder = told.get("folder") or environment.get("LOCKSTEP_STEPS_DIR")
            if where:
                self._transport = _Datagrams(str(where))
            elif folder:
                self._transport = _File(str(folder), self._pending)
            else:
                self._off = "neither LOCKSTEP_STEPS_SOCKET nor LOCKSTEP_STEPS_DIR is set"
        except Exception as error:
            self._off = f"{type(error).__name__}: {error}"

    def _line(self, fields: dict[str, Any]) -> bytes | None:
        row: dict[str, Any] = {"step": self._count, "rank": self._rank, "ts_ms": int(time.time() * 1000)}
        for name in ("job", "node"):
            if name in self._told:
                row[name] = self._told[name]
        for name, value in fields.items():
            kept = _plain(value)
            if kept is not None:
                row["phase" if name == "kind" else name] = kept
        if not isinstance(row["step"], int):
            return None
        self._count = row["step"] + 1
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"

    def leave(self) -> None:
        with suppress(Exception):
            if self._transport is not None:
                self._transport.leave()

    def status(self) -> str:
        if not self._started:
            self._start()
        if self._off or self._transport is None:
            return f"off: {self._off}"
        waiting = len(self._pending)
        return f"rank {self._rank} to {self._transport.path}: {self.reported} steps, {waiting} not taken yet"


def _taken(pending: deque[bytes], line: bytes) -> None:
    """Remove the first line, unless it was pushed out meanwhile and another is first."""
    if pending and pending[0] is line:
        pending.popleft()


def _plain(value: Any) -> Any:
    """A number or text as it is; None for what JSON cannot say, and for tensors: to ask one would wait for its GPU."""
    if isinstance(value, str):
        return value[:TEXT]
    if type(value).__module__ == "numpy":
        value = value.item()
    if isinstance(value, float):
        return value if value - value == 0 else None  # neither nan nor endless
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _namespace() -> str:
    """The kernel's number of this process's pid namespace: a pid means nothing without it."""
    try:
        return "-ns" + os.readlink("/proc/self/ns/pid").partition("[")[2].rstrip("]")
    except OSError:
        return ""


_reporter = _Reporter()
atexit.register(_reporter.leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reporter.reset)


def configure(
    rank: int | None = None,
    job: str | None = None,
    node: str | None = None,
    socket: str | None = None,
    folder: str | None = None,
) -> None:
    """Say what the environment does not: this process's global rank, its job's name, where the agent listens."""
    with suppress(Exception):
        _reporter.configure(rank=rank, job=job, node=node, socket=socket, folder=folder)


def step(number: int | None = None, **fields: Any) -> Step:
    """A step as a context manager; `number` goes on from the last one where it is not given.

    `fields`: tokens (or work), shape, flops, gpu, and kind ("eval" for steps that are not training).
    """
    return Step(_reporter, fields if number is None else {"step": number, **fields})


def steps(batches: Iterable[T], **fields: Any) -> Iterator[T]:
    """The same batches; each turn of the loop over them is one step, the wait for the batch its data time."""
    source = iter(batches)
    while True:
        one = step(**fields)
        try:
            with one.phase("data"):
                batch = next(source)
        except StopIteration:
            return
        yield batch
        one.end()


def report(step_us: float, step: int | None = None, **fields: Any) -> None:
    """A step measured by yourself, in microseconds: step_us, and of it data_us, compute_us, comm_us, wait_us."""
    _reporter.report({**fields, "step_us": step_us} if step is None else {**fields, "step_us": step_us, "step": step})


def status() -> str:
    """For a person: where lines go and how many, or why none do."""
    return _reporter.status()
