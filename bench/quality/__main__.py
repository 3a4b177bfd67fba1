"""How good the answers are, on labelled data, beside those of other methods.

    python -m bench.quality --data DIR [--part steps] [--format json]

DIR holds the folders of the data (traces/..., nccl/...), or is itself the folder of one part. Parts whose data is not
there are left out, and said so.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.quality import anomaly, batch_times, pipeline, power, steps


class Part(NamedTuple):
    """One part: its folder below DIR, a file that must be in it, what computes the answer, and what prints it."""

    folder: str
    needs: str
    run: Callable[[Path], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]


PARTS: dict[str, Part] = {
    "power": Part(power.FOLDER, power.NEEDS, power.run, power.text),
    "anomaly": Part(anomaly.FOLDER, anomaly.NEEDS, anomaly.run, anomaly.text),
    "steps": Part(steps.FOLDER, steps.NEEDS, steps.run, steps.text),
    "pipeline": Part(pipeline.FOLDER, pipeline.NEEDS, pipeline.run, pipeline.text),
    "batch_times": Part(batch_times.FOLDER, batch_times.NEEDS, batch_times.run, batch_times.text),
}
"""A part of the exam a line."""


def folder_of(part: Part, data: Path) -> Path | None:
    """Where the part's data is, None where it is not."""
    return next((folder for folder in (data / part.folder, data) if (folder / part.needs).exists()), None)


def main() -> None:
    """Run the parts whose data is there."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--part", choices=sorted(PARTS), action="append")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    args = parser.parse_args()
    if not args.data.is_dir():
        parser.error(f"--data {args.data}: no such folder")
    answers: dict[str, Any] = {}
    for name in args.part or PARTS:
        folder = folder_of(PARTS[name], args.data)
        if folder is None:
            text = f"left out, there is no {PARTS[name].folder}/{PARTS[name].needs} in {args.data}"
            answers[name] = {"left_out": text}
        else:
            answers[name] = PARTS[name].run(folder)
            text = PARTS[name].text(answers[name])
        if args.format == "text":
            print(f"== {name}\n{text}")
    if args.format == "json":
        print(json.dumps(answers, indent=1))


if __name__ == "__main__":
    main()
