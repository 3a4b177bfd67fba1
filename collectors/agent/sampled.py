"""The sampler process: the collectors whose driver calls can hang, one request at a time.

Started by `collectors.agent.sampler` as `python -m collectors.agent.sampled FACTORY ARGUMENT`; ends when its input
does.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping
from importlib import import_module

import msgspec

from collectors.agent.pipe import Answer, Frames, PackedReading, Request, answer, frame
from collectors.base import Collector, CollectorError, NoData, Reading
from schemas.frame import Gpu

GC_OBJECTS = 10_000
"""As in `collectors.agent.service`, which this process does not import: a reading is no reason to look for cycles."""

Factory = Callable[[str, tuple[Gpu, ...]], Mapping[str, Collector]]
"""Makes the collectors by name, from the ARGUMENT and the GPUs that an earlier process has seen."""


def load(name: str) -> Factory:
    """The factory "package.module:function"."""
    module, _, function = name.partition(":")
    made: Factory = getattr(import_module(module), function)
    return made


def collect(collectors: Mapping[str, Collector], request: Request) -> Answer:
    """One request answered; a collector that breaks is an answer too."""
    said: Reading | NoData | CollectorError
    try:
        said = collectors[request.name].collect(request.tick_ms)
    except (NoData, CollectorError) as error:
        said = error
    except Exception as error:
        said = CollectorError("crashed", f"{type(error).__name__}: {error}")
    return answer(request.id, said)


def main(factory: str, argument: str) -> None:
    """Serve requests from standard input; answers go to what was standard output.

    Whatever else this process prints (drivers do) goes to standard error, so that it cannot garble an answer.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the agent, which then closes our input
    gc.set_threshold(GC_OBJECTS)
    output = os.dup(1)
    os.dup2(2, 1)
    frames = Frames()
    requests = msgspec.msgpack.Decoder(Request)
    collectors: Mapping[str, Collector] | None = None
    while received := os.read(0, 65536):
        for body in frames.feed(received):
            if collectors is None:  # the first message: GPUs seen before
                known = msgspec.msgpack.decode(body, type=PackedReading).gpus
                collectors = load(factory)(argument, known)
                reply = Answer(0)
            else:
                reply = collect(collectors, requests.decode(body))
            rest = memoryview(frame(reply))
            try:
                while rest:
                    rest = rest[os.write(output, rest) :]
            except BrokenPipeError:  # the agent did not wait for a late answer, or is gone
                return


if __name__ == "__main__":
    main(*sys.argv[1:3])
