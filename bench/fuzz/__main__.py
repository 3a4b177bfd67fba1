"""Fuzz the parsers: `python -m bench.fuzz [NAME...] [--seconds N]`.

Guided by coverage where atheris can be imported (pip install atheris), else samples changed at random. Each parser runs
in a process of its own, which may take a gibibyte more than its samples need. Exit status 1 where one raised anything
but its own refusal, was slower than its limit, or died.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

GRACE_S = 120.0
"""Over the time that was asked for: importing and instrumenting, the samples, a last slow input."""


class Outcome(NamedTuple):
    """What one parser's process said: its newest counts, and its faults by their place."""

    name: str
    counts: dict[str, Any]
    faults: dict[str, bytes]


def main() -> int:
    """Run the parsers named, or all, one after the other; a line each as it ends."""
    from bench.fuzz.parsers import PARSERS

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PARSERS))
    options.add_argument("--seconds", type=float, default=60.0, help="for each parser (default 60)")
    options.add_argument("--keep", type=Path, help="folder for the inputs that showed a fault")
    given = options.parse_args()
    if unknown := [name for name in given.names if name not in PARSERS]:
        options.error(f"no parser {unknown[0]!r}; there are {', '.join(PARSERS)}")
    guided = find_spec("atheris") is not None
    print("guided by coverage (atheris)" if guided else "samples changed at random (no atheris here)")
    print(
        f"{'parser':28} {'inputs':>9} {'taken':>9} {'new paths':>9} {'slowest s':>9} {'memory MiB':>10} {'faults':>6}"
    )
    faults = 0
    for name in given.names or PARSERS:
        found = _run(name, given.seconds, guided)
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


def _run(name: str, seconds: float, guided: bool) -> Outcome:
    counts: dict[str, Any] = {"inputs": 0, "taken": 0, "slowest_s": 0.0, "grown_mib": 0.0}
    faults: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        asked = [sys.executable, "-m", "bench.fuzz.child", name, str(seconds), folder, "guided" if guided else "random"]
        with (Path(folder) / "said").open("wb") as said:
            try:
                code = subprocess.run(
                    asked, stdout=said, stderr=said, timeout=seconds + GRACE_S, check=False
                ).returncode
            except subprocess.TimeoutExpired:
                code = -1
        for line in report.read_text().splitlines() if report.exists() else ():
            told = json.loads(line)
            if "fault" in told:
                faults.setdefault(told["fault"], bytes.fromhex(told["input"]))
            else:
                counts |= told
        text = (Path(folder) / "said").read_text("utf-8", "replace")
        if code:
            now = Path(folder) / "now"
            words = " ".join(text.splitlines()[-1:]) if code > 0 else "no end within its time" if code == -1 else ""
            faults[f"the process ended with {code} {words}"[:200]] = now.read_bytes() if now.exists() else b""
        if (added := re.findall(r"stat::new_units_added:\s+(\d+)", text)) and guided:
            counts["paths"] = int(added[-1])
    return Outcome(name, counts, faults)


if __name__ == "__main__":
    sys.exit(main())
