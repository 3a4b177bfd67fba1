"""Fuzz the parsers: `python -m bench.fuzz [NAME...] [--seconds N]`.

Guided by coverage where atheris can be imported (pip install atheris), else samples changed at random. Each parser runs
in a process of its own, which may take a gibibyte more than its samples need. Exit status 1 where one raised anything
but its own refusal, was slower than its limit, or died.
"""

import argparse
import json
import re
import sys
import tempfile
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from bench.fuzz.child import load, run
from bench.fuzz.parser import SCRATCH, Parser

GRACE_S = 120.0
"""Over the time that was asked for: the samples, and a last slow input."""


class Outcome(NamedTuple):
    """What one parser's process said: its newest counts, and its faults by their place."""

    counts: dict[str, Any]
    faults: dict[str, bytes]


def main() -> int:
    """Run the parsers named, or all, one after the other; a line each as it ends."""
    guided = find_spec("atheris") is not None
    parsers = load(guided)
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(parsers))
    options.add_argument("--seconds", type=float, default=60.0, help="for each parser (default 60)")
    options.add_argument("--keep", type=Path, help="folder for the inputs that showed a fault")
    given = options.parse_args()
    if unknown := [name for name in given.names if name not in parsers]:
        options.error(f"no parser {unknown[0]!r}; there are {', '.join(parsers)}")
    print("guided by coverage (atheris)" if guided else "samples changed at random (no atheris here)")
    print(
        f"{'parser':28} {'inputs':>9} {'taken':>9} {'new paths':>9} {'slowest s':>9} {'memory MiB':>10} {'faults':>6}"
    )
    faults = 0
    for name in given.names or parsers:
        found = _run(name, parsers[name], given.seconds, guided)
        c = found.counts
        print(
            f"{name:28} {c['inputs']:9,} {c['taken']:9,} {c.get('paths', '-'):>9} {c['slowest_s']:9.2f}"
            f" {c['grown_mib']:10.1f} {len(found.faults):6}",
            flush=True,
        )
        for place, data in found.faults.items():
            print(f"  {place}: {data[:60]!r}", flush=True)
            if given.keep is not None:
                given.keep.mkdir(parents=True, exist_ok=True)
                kept = given.keep / re.sub(r"\W+", "-", f"{name} {place[:60]}")
                kept.write_bytes(data)
        faults += len(found.faults)
    return 1 if faults else 0


def _run(name: str, parser: Parser, seconds: float, guided: bool) -> Outcome:
    """One parser in a process forked from this one, so that what is imported is imported once."""
    counts: dict[str, Any] = {"inputs": 0, "taken": 0, "slowest_s": 0.0, "grown_mib": 0.0}
    faults: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name_:
        folder = Path(name_)
        process = get_context("fork").Process(target=run, args=(parser, seconds, folder, guided))
        process.start()
        process.join(seconds + GRACE_S)
        if process.is_alive():
            process.kill()
            process.join()
        report = folder / "report"
        for line in report.read_text().splitlines() if report.exists() else ():
            told = json.loads(line)
            if "fault" in told:
                faults.setdefault(told["fault"], bytes.fromhex(told["input"]))
            else:
                counts |= told
        text = (folder / "said").read_text("utf-8", "replace")
        if process.exitcode:
            now = folder / "now"
            words = " ".join(text.splitlines()[-1:])
            faults[f"the process ended with {process.exitcode}: {words}"[:200]] = (
                now.read_bytes() if now.exists() else b""
            )
        if guided and (added := re.findall(r"stat::new_units_added:\s+(\d+)", text)):
            counts["paths"] = int(added[-1])
    return Outcome(counts, faults)


if __name__ == "__main__":
    sys.exit(main())
