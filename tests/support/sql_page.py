"""docs/sql.md: every view, roll-up and question, each question with its answer from a small fleet.

`make sql` writes it; a test asks every question again and compares.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

import msgspec
from clickhouse_connect.driver.client import Client
from clickhouse_provider import engine
from clickhouse_rows import store
from sample_history import BEGAN, INCIDENT, JOB, history

from storage.ask import answer
from storage.client import get_client
from storage.migrate import migrate
from storage.questions import QUESTIONS, arguments
from storage.roll import Roller
from storage.rollups import ROLLUPS
from storage.views import VIEW_NOTES

ASKED: dict[str, dict[str, str]] = {
    "worst-gpus": {"job": JOB, "limit": "3"},
    "bus-bandwidth": {"job": JOB, "rank": "2"},
    "straggler-history": {"at": "2026-11-02 00:00:00"},
    "rack-cooling": {"rack": "r01"},
    "rack-nvlink": {"rack": "r01"},
    "risks": {"at": "2026-11-01 12:05:00"},
    "repeat-offenders": {"at": "2026-11-02 00:00:00"},
    "gpus-by-risk": {"at": "2026-11-02 00:00:00", "limit": "3"},
    "mtbf": {"at": "2026-11-02 00:00:00"},
    "job-timeline": {"job": JOB},
    "before-incident": {"incident": INCIDENT},
    "gpu-history": {"gpu": "1650023003"},
    "job-history": {"job": JOB},
}
"""With which parameters each example asks."""

HEAD = Path(__file__).with_name("sql_page_head.md")


def fill(client: Client) -> None:
    """The small fleet's history and its roll-ups, into an empty migrated database."""
    store(client, *history())
    Roller(client, {name: ROLLUPS[name] for name in ("gpu_1m", "gpu_1h", "operations_1m", "loop_1m")}).roll_all()


def command(name: str) -> str:
    parameters = "".join(
        f" --param {k}={v!r}" if " " in v else f" --param {k}={v}" for k, v in ASKED.get(name, {}).items()
    )
    return f"lockstep query --name {name}{parameters}"


def answered(client: Client, name: str) -> str:
    """The answer to the example of that question, as `lockstep query` prints it."""
    given = arguments(name, ASKED.get(name, {}), BEGAN)
    pieces = answer(client, lambda: client, QUESTIONS[name].sql, "PrettyCompactMonoBlock", given)
    return b"".join(pieces).decode()


def example(client: Client, name: str) -> str:
    """The section of one question."""
    asked = QUESTIONS[name]
    words = []
    for parameter, about in asked.parameters.items():
        default = "" if about.default is None else f"; {about.default or 'empty'} unless given"
        words.append(f"`{parameter}` ({about.said}{default})")
    takes = f"\nTakes {', '.join(words)}.\n" if words else ""
    return f"### {name}\n\n{asked.asks}\n{takes}\n```console\n$ {command(name)}\n{answered(client, name)}```\n"


def page(client: Client) -> str:
    """The whole page."""
    rollups = "\n".join(
        f"| `{r.name}` | {r.what} | `{r.source}` | {', '.join(r.key)} | {r.days} |" for r in ROLLUPS.values()
    )
    views = "\n".join(f"| `{name}` | {note} |" for name, note in VIEW_NOTES.items())
    return "\n".join(
        [
            HEAD.read_text(encoding="utf-8"),
            "## Questions\n",
            *(example(client, name) for name in QUESTIONS),
            f"## Views\n\n| view | what |\n|---|---|\n{views}\n",
            f"## Roll-ups\n\n| table | a row is | of | key | days |\n|---|---|---|---|---|\n{rollups}",
        ]
    ) + "\n"  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, engine(Path(folder)) as settings:
        with contextlib.closing(get_client(settings, database=False)) as client:
            migrate(client, "sample")
        here = msgspec.structs.replace(settings, clickhouse_database="sample")
        with contextlib.closing(get_client(here)) as client:
            fill(client)
            sys.stdout.write(page(client))


if __name__ == "__main__":
    main()
