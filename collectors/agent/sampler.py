"""Collectors whose driver call can hang run in a process of their own.

A thread would not help: nothing interrupts a call inside the driver, and a hung one would take the agent with it. The
process gets one request at a time and a deadline for each. Past the deadline the tick has no values (missing{timeout})
and an event says so; a late answer is dropped, never sent as if it were new; a process that stays silent is killed and
replaced. The agent waits in poll(), at most one deadline in a row.
"""

import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from collectors.agent.pipe import Answer, Frames, PackedReading, Request, frame, result
from collectors.base import CollectorError, NoData, Reading, blank
from collectors.gpu.known import KnownGpus
from runtime.clock import Clock
from runtime.health import Counters

DEADLINE_S = 0.8
"""A tick is a second: what comes later belongs to no tick."""

KILL_AFTER_S = 20.0
"""The driver gives up on its firmware after 6 s, up to three times in a row (XID 119): less would kill for nothing."""

START_S = 30.0
"""Without persistence mode the driver initialises each GPU when it is opened, which takes seconds."""

PIPE_BYTES = 65_536
"""What a pipe holds (pipe(7)); asking for more only makes room for nothing."""

PAUSE_S, LONGEST_PAUSE_S = 5.0, 60.0
"""Between the end of one process and the start of the next, doubled while none gives a reading: a start costs a third
of a second of CPU time."""


class Sampler:
    """One sampler process. `factory` ("package.module:function") and `argument` make its collectors there.

    `environment` is the process's; it imports this package from where it lies. `known` remembers the GPUs over starts
    of the agent. Not for several threads.
    """

    def __init__(
        self,
        factory: str,
        argument: str,
        clock: Clock,
        counters: Counters,
        environment: Mapping[str, str],
        deadline_s: float = DEADLINE_S,
        kill_after_s: float = KILL_AFTER_S,
        pause_s: float = PAUSE_S,
        known: KnownGpus | None = None,
    ) -> None:
        self._command = [sys.executable, "-m", "collectors.agent.sampled", factory, argument]
        here = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (here, environment.get("PYTHONPATH"))))
        # The arithmetic library would start a thread per core, each with its own memory, for sums of a few numbers.
        self._environment = dict(environment) | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        self._clock, self._counters, self._known = clock, counters, known
        self._deadline_s, self._kill_after_s = deadline_s, kill_after_s
        self._first_pause_s = self._pause_s = pause_s
        self._process: subprocess.Popen[bytes] | None = None
        self._dying: list[subprocess.Popen[bytes]] = []
        self._start_at = float("-inf")
        self._started_s = 0.0
        self._ready = False
        self._asked: tuple[int, float] | None = None
        self._id = 0
        self._last: dict[str, Reading] = {}
        self._trouble: CollectorError | None = None
        self._frames, self._answers = Frames(), msgspec.msgpack.Decoder(Answer)

    def ask(self, name: str, tick_ms: int) -> Reading:
        """What collector `name` reads now. Raises what it raises, or CollectorError "stalled" or "sampler_died"."""
        now = self._clock.monotonic()
        if self._process is None:
            self._dying = [process for process in self._dying if process.poll() is None]
            # One that cannot even be killed hangs in the driver; a second one would hang beside it.
            if now < self._start_at or self._dying:
                raise self._again(name)
            self._start(now)
        if self._asked is not None or not self._ready:
            self._receive(0.0)
        if self._process is None:
            raise self._again(name)
        if not self._ready:
            if now - self._started_s > START_S:
                self._end("stalled", "the sampler process does not start")
            if self._trouble is None:
                raise NoData("the sampler process is starting")
            raise self._again(name)
        if self._asked is not None:
            raise self._stalled(name, now - self._asked[1])
        self._id += 1
        self._asked = (self._id, now)
        got = self._exchange(frame(Request(self._id, name, tick_ms)), now + self._deadline_s)
        if got is None:
            raise self._stalled(name, self._deadline_s) if self._process else self._again(name)
        self._trouble = None
        try:
            reading = result(got)
        except CollectorError as error:
            if error.restart:
                self._end(error.code, error.text, error.kind)
            raise
        self._last[name] = reading
        if self._known is not None and "gpu" in reading.sections:
            self._known.note(reading)
        self._pause_s = self._first_pause_s
        return reading

    def close(self) -> None:
        """End the process: its input ends, and if that does not help, it is killed."""
        if self._process is not None:
            process, self._process = self._process, None
            self._hang_up(process)
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                self._dying.append(process)
        for process in self._dying:
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                self._counters.add("errors", label="sampler_unkillable")

    def _start(self, now: float) -> None:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment, bufsize=0
        )
        self._started_s, self._ready, self._asked, self._frames = now, False, None, Frames()
        gpus = {gpu.uuid: gpu for reading in self._last.values() for gpu in reading.gpus if gpu.pci}
        if not gpus and self._known is not None:
            gpus = {gpu.uuid: gpu for gpu in self._known.load()}
        self._send(frame(PackedReading({}, tuple(gpus.values()), {}, [])))

    def _exchange(self, request: bytes, until_s: float) -> Answer | None:
        """The answer to the request just numbered; None past the deadline or where the process ended."""
        self._send(request)
        while self._process is not None and (left_s := until_s - self._clock.monotonic()) > 0:
            got = self._receive(left_s)
            if got is not None:
                return got
        return None

    def _send(self, message: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(message)
        except OSError:
            self._died()

    def _receive(self, wait_s: float) -> Answer | None:
        """Take in what has come, waiting for `wait_s` at most; the answer that is waited for, if it came."""
        if self._process is None or self._process.stdout is None:
            return None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(wait_s * 1000):
            return None
        received = os.read(descriptor, PIPE_BYTES)
        if not received:
            self._died()
            return None
        on_time: Answer | None = None
        for body in self._frames.feed(received):
            got = self._answers.decode(body)
            if got.id == 0:
                self._ready = True
            elif self._asked is not None and got.id == self._asked[0]:
                self._asked = None
                if wait_s > 0:
                    on_time = got
                else:
                    self._counters.add("dropped", label="late_answer")
        return on_time

    def _stalled(self, name: str, since_s: float) -> CollectorError:
        """Past the deadline: what to say of this tick, and the end of a process that is silent for too long."""
        text = f"no answer from the driver for {since_s:.1f} s"
        self._trouble = CollectorError("stalled", text, "collector_stalled")
        if since_s >= self._kill_after_s:
            self._end("stalled", f"{text}: the sampler process is replaced", "collector_stalled")
        return self._again(name)

    def _again(self, name: str) -> CollectorError:
        """The present trouble, with this collector's rows left blank."""
        trouble = self._trouble or CollectorError("sampler_died", "the sampler process ended")
        partial = blank(self._last[name], "timeout") if name in self._last else None
        return CollectorError(trouble.code, trouble.text, trouble.kind, partial)

    def _died(self) -> None:
        assert self._process is not None
        try:
            status: int | None = self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            status = None
        self._end("sampler_died", f"the sampler process ended (status {status})")

    def _end(self, code: str, text: str, kind: str = "collector_failed") -> None:
        """Be rid of the process; the next one starts after a pause."""
        self._trouble = CollectorError(code, text, kind)
        self._start_at = self._clock.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._counters.add("errors", label=f"sampler_{code}")
        if self._process is not None:
            process, self._process = self._process, None
            self._hang_up(process)
            process.kill()
            self._dying.append(process)

    @staticmethod
    def _hang_up(process: "subprocess.Popen[bytes]") -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


class SampledCollector:
    """A collector of the sampler process, seen from the agent."""

    def __init__(self, sampler: Sampler, name: str, interval_s: float) -> None:
        self._sampler, self.name, self.interval_s = sampler, name, interval_s

    def collect(self, tick_ms: int) -> Reading:
        return self._sampler.ask(self.name, tick_ms)
