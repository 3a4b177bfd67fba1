"""One parser's process: inputs until the time is over, and what they led to in a file of JSON lines."""

import json
import os
import re
import resource
import time
import traceback
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from random import Random

from bench.fuzz.mutate import FLOOD, LONGEST, mutate
from bench.fuzz.parser import PATIENCE_S, Parser, fed

ROOM = 1 << 30
"""Bytes of address space over what the samples needed: whoever asks for more gets a MemoryError, which is a fault."""

INSTRUMENTED = ["collectors", "lockstep.analyze", "lockstep.replay", "runtime", "schemas"]


class Watch:
    """Feeds inputs, counts, and writes down what is new."""

    def __init__(self, parser: Parser, folder: Path) -> None:
        self._parser, self._now = parser, folder / "now"
        self._report = (folder / "report").open("w")
        self._inputs = self._taken = 0
        self._slowest_s = 0.0
        self._places: set[str] = set()
        self._told_s = 0.0
        self._base_kib = 0

    def samples(self) -> None:
        """All samples once, and the limit of memory above what they took."""
        limited, self._parser = self._parser, self._parser._replace(limit_s=PATIENCE_S)
        for seed in limited.seeds:
            self.feed(seed)
        self._parser, self._slowest_s = limited, 0.0
        self._base_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def feed(self, data: bytes) -> None:
        self._inputs += 1
        self._now.write_bytes(data)  # for whoever finds this process dead
        began = time.process_time()
        try:
            self._taken += fed(self._parser, data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            place = _place(error)
            if place not in self._places:
                self._places.add(place)
                self._write({"fault": place, "input": data.hex()})
        self._slowest_s = max(self._slowest_s, time.process_time() - began)
        if time.monotonic() - self._told_s > 1:
            self.tell()

    def tell(self) -> None:
        self._told_s = time.monotonic()
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self._base_kib) / 1024 if self._base_kib else 0.0
        counts = {"inputs": self._inputs, "taken": self._taken, "slowest_s": self._slowest_s, "grown_mib": grown}
        self._write(counts)

    def _write(self, row: dict[str, object]) -> None:
        self._report.write(json.dumps(row) + "\n")
        self._report.flush()


def _place(error: BaseException) -> str:
    """The kind of an exception and where in our code it came from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/bench/" not in f.filename]
    ours = [f for f in frames if any(f"/{room.split('.')[0]}/" in f.filename for room in (*INSTRUMENTED, "detectors"))]
    at = (ours or frames or traceback.extract_tb(error.__traceback__))[-1]
    where = "/".join(at.filename.split("/")[-2:])
    text = re.sub(r"\d+", "N", str(error))[:80]  # one place is one fault, whatever number it was about
    return f"{type(error).__name__} at {where}:{at.lineno} ({text})" if ours else type(error).__name__


def _random(watch: Watch, parser: Parser, seconds: float) -> None:
    random, end_s = Random(0), time.monotonic() + seconds
    while time.monotonic() < end_s:
        watch.feed(mutate(random.choice(parser.seeds), parser.seeds, random))
    watch.tell()


def _guided(watch: Watch, parser: Parser, seconds: float, folder: Path) -> None:
    """libFuzzer picks the inputs; it changes half of them itself, and half are changed as above."""
    import atheris

    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(parser.seeds):
        (corpus / str(number)).write_bytes(seed[:LONGEST])

    def change(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.5:
            return bytes(atheris.Mutate(data, most))
        return mutate(data, parser.seeds, random)[:most]

    options = [f"-max_total_time={seconds:.0f}", f"-max_len={FLOOD}", "-print_final_stats=1", "-timeout=60"]
    options += ["-rss_limit_mb=0", f"-artifact_prefix={folder}/", "-verbosity=0"]
    atheris.Setup(["fuzz", *options, str(corpus)], watch.feed, custom_mutator=change)
    atheris.Fuzz()


def load(guided: bool) -> dict[str, Parser]:
    """The parsers; their modules are instrumented where libFuzzer is to see their paths."""
    if guided:
        import atheris

        # It names each module that it instruments.
        with redirect_stderr(StringIO()), atheris.instrument_imports(include=INSTRUMENTED):
            from bench.fuzz.parsers import PARSERS
    else:
        from bench.fuzz.parsers import PARSERS
    return PARSERS


def run(parser: Parser, seconds: float, folder: Path, guided: bool) -> None:
    """To be called in a process of its own: libFuzzer ends it."""
    said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    watch = Watch(parser, folder)
    watch.samples()
    if guided:
        _guided(watch, parser, seconds, folder)
    else:
        _random(watch, parser, seconds)
