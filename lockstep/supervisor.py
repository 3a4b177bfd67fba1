"""Keeps the processes of one machine running: start in order, restart what dies, one log, stop in order.

A process says `ready ADDRESS` on its standard output when others may use it; what needs it starts after that, with
the address in its environment. When a process that others need dies, they are started anew with it, because its
address (and, for the embedded broker, its contents) is another then. If the supervisor itself dies, the kernel ends
its children.
"""

import contextlib
import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from runtime.clock import Clock
from runtime.errors import UserError

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0
"""A process that ran so long starts its back-off anew."""

Addresses = Mapping[str, str]
_PR_SET_PDEATHSIG = 1


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One process: `arguments` of `lockstep`, its environment made from the addresses of what it `needs`."""

    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    publishes: bool = False
    environment: Callable[[Addresses], Mapping[str, str]] = lambda addresses: {}
    once: bool = False
    """Runs to its end before the next service starts (a migration); ending is no failure."""


class _Child:
    def __init__(self, service: Service, process: "subprocess.Popen[bytes]", started_s: float) -> None:
        self.service, self.process, self.started_s = service, process, started_s
        self.ready = threading.Event()
        self.last_lines: list[str] = []
        self.follower = threading.Thread()


class Supervisor:
    """Runs `services` in their order. `log` gets every line any of them prints, with the name ahead."""

    def __init__(
        self,
        services: Sequence[Service],
        environment: Mapping[str, str],
        log: Path,
        clock: Clock,
        echo: bool = False,
        program: Sequence[str] = (sys.executable, "-m", "lockstep"),
    ) -> None:
        self._services, self._environment, self._clock, self._echo = services, dict(environment), clock, echo
        self._program = tuple(program)
        self._children: dict[str, _Child] = {}
        self._last_words: dict[str, str] = {}
        self._pauses: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._log_path = log
        try:
            self._log: TextIO = log.open("a", buffering=1, encoding="utf-8")
        except OSError as error:
            raise UserError(f"log {log}: {error.strerror}; choose another --data") from None
        self._lock = threading.Lock()
        self.addresses: dict[str, str] = {}
        self.restarts: dict[str, int] = {}

    def start(self, progress: Callable[[str], None] = lambda name: None) -> None:
        """Start everything, waiting for what others need; UserError with the last words of what cannot start."""
        for service in self._services:
            progress(service.name)
            self._launch(service)
            self._await(service)

    def tend(self) -> None:
        """Restart what has died, after a pause that grows while it keeps dying. Call this about every second."""
        for service in self._services:
            child = self._children.get(service.name)
            if child is None or service.once or child.process.poll() is None:
                continue
            now = self._clock.monotonic()
            if service.name not in self._not_before:
                steady = now - child.started_s > STEADY_S
                pause = 1.0 if steady else min(LONGEST_PAUSE_S, 2 * self._pauses.get(service.name, 0.5))
                self._pauses[service.name] = pause
                self._not_before[service.name] = now + pause
                self._write("up", f"{service.name} ended with {child.process.returncode}, again in {pause:g} s")
            elif now >= self._not_before[service.name]:
                del self._not_before[service.name]
                self.restarts[service.name] = self.restarts.get(service.name, 0) + 1
                self._restart(service)

    def stop(self) -> None:
        """Ask each process to stop, last started first; kill what does not within 15 s."""
        for service in reversed(self._services):
            self._end(service.name)
        with contextlib.suppress(OSError):
            self._log.close()

    def require_steady(self, limit: int = 2) -> None:
        """UserError with its last words where a process had to be restarted more than `limit` times."""
        for name, count in self.restarts.items():
            if count > limit:
                said = self._last_words.get(name, "without a word").removeprefix("lockstep: ")
                raise UserError(f"{name} keeps ending: {said} (log: {self._log_path})")

    def running(self, name: str) -> bool:
        child = self._children.get(name)
        return child is not None and child.process.poll() is None

    def pid(self, name: str) -> int:
        return self._children[name].process.pid

    def _restart(self, service: Service) -> None:
        dependents = [s for s in self._services if service.publishes and service.name in s.needs]
        for dependent in dependents:  # all at once: each waits for what it would do in vain without this one
            if self.running(dependent.name):
                self._children[dependent.name].process.terminate()
        for dependent in reversed(dependents):
            self._end(dependent.name)
        try:
            self._launch(service)
            self._await(service)
            for dependent in dependents:
                self._launch(dependent)
                self._await(dependent)
        except UserError as error:
            self._write("up", str(error))

    def _launch(self, service: Service) -> None:
        self._end(service.name)
        environment = self._environment | dict(service.environment(self.addresses))
        process = subprocess.Popen(
            [*self._program, *service.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        child = _Child(service, process, self._clock.monotonic())
        self._children[service.name] = child
        child.follower = threading.Thread(target=self._follow, args=(child,), daemon=True)
        child.follower.start()

    def _await(self, service: Service) -> None:
        child = self._children[service.name]
        deadline = self._clock.monotonic() + READY_TIMEOUT_S
        if not service.once and not service.publishes:
            return
        while not child.ready.is_set():
            ended = child.process.poll()
            if ended is not None and not (service.once and ended == 0):
                child.ready.wait(0.5)
                said = child.last_lines[-1].removeprefix("lockstep: ") if child.last_lines else f"exit status {ended}"
                raise UserError(f"{service.name} did not start: {said} (log: {self._log_path})")
            if ended == 0:
                return
            if self._clock.monotonic() > deadline:
                raise UserError(f"{service.name} was not ready within {READY_TIMEOUT_S:g} s (log: {self._log_path})")
            child.ready.wait(0.05)

    def _follow(self, child: _Child) -> None:
        assert child.process.stdout is not None
        with child.process.stdout as output:
            for raw in output:
                line = raw.decode("utf-8", "replace").rstrip()
                if child.service.publishes and line.startswith("ready "):
                    self.addresses[child.service.name] = line.removeprefix("ready ").strip()
                    child.ready.set()
                child.last_lines = [*child.last_lines[-4:], line]
                self._last_words[child.service.name] = line
                self._write(child.service.name, line)

    def _end(self, name: str) -> None:
        child = self._children.get(name)
        if child is None:
            return
        child.process.terminate()
        try:
            child.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._write("up", f"{name} did not stop in {STOP_TIMEOUT_S:g} s, killed")
            child.process.kill()
            child.process.wait()
        child.follower.join(1.0)

    def _write(self, name: str, line: str) -> None:
        """Into the log, and to whoever watches. Where the disk is full, or nobody reads any more, the line is lost: a
        process that nobody listens to would stop at its next word."""
        with self._lock:
            with contextlib.suppress(OSError):
                if not self._log.closed:
                    self._log.write(f"{name:<9} {line}\n")
            with contextlib.suppress(OSError):
                if self._echo:
                    print(f"{name:<9} {line}", file=sys.stderr)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
