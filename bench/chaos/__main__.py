"""What holds when processes die at random.

    python -m bench.chaos PART [options of the part; --help says them]

Each part is a module of this package with `main(arguments) -> exit status`.
"""

import importlib
import sys

# A part a line: its module, and what it does.
PARTS: dict[str, str] = {
    "storage": "random deaths of writer, roller and engine; the tables and roll-ups against what was produced",
    "alerts": "random incident lives, random deaths of the alerter, a receiver that counts as PagerDuty does",
}


def main() -> None:
    """Run one part."""
    if len(sys.argv) < 2 or sys.argv[1] not in PARTS:
        known = "\n".join(f"  {name:<10} {what}" for name, what in PARTS.items())
        sys.exit(f"usage: python -m bench.chaos PART [options]\n{known}")
    sys.exit(importlib.import_module(f"bench.chaos.{sys.argv[1]}").main(sys.argv[2:]))


if __name__ == "__main__":
    main()
