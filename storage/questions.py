"""The questions that people ask, by name: `lockstep query --name worst-gpus --param job=...`.

Each is a file in `storage/sql/questions`: one SELECT with ClickHouse's own parameters ({job:String}), so that it can be
pasted anywhere. The first comment line is the question, then one line a parameter: `:name = default what it is`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from runtime.errors import UserError
from storage.views import FOLDER, commented

NOW = "now"

_PARAMETER = re.compile(r":(?P<name>\w+)(?P<given> = (?P<default>''|\S+))? (?P<said>.+)")


class Parameter(NamedTuple):
    """What a question wants to be told. `default` None: it must be given; NOW: the time of asking."""

    said: str
    default: str | None


class Question(NamedTuple):
    """One question in words, and in SQL."""

    asks: str
    sql: str
    parameters: dict[str, Parameter]


def read(head: list[str], sql: str) -> Question:
    """A question from the comment lines of its file and the statement.

    >>> read(["Who?", ":job = '' key of the job; empty: all"], "SELECT 1").parameters
    {'job': Parameter(said='key of the job; empty: all', default='')}
    """
    found = [_PARAMETER.fullmatch(line) for line in head[1:]]
    parameters = {
        match["name"]: Parameter(match["said"], match["default"].strip("'") if match["given"] else None)
        for match in found
        if match is not None
    }
    return Question(head[0], sql, parameters)


_NAMES = (
    "fleet-now",
    "worst-gpus",
    "bus-bandwidth",
    "straggler-history",
    "time-lost",
    "rack-nvlink",
    "rack-cooling",
    "risks",
    "repeat-offenders",
    "gpus-by-risk",
    "xids-by-serial",
    "mtbf",
    "job-timeline",
    "before-incident",
    "gpu-history",
    "job-history",
)

QUESTIONS: dict[str, Question] = {name: read(*commented(FOLDER / "questions" / f"{name}.sql")) for name in _NAMES}


def question(name: str) -> Question:
    """The question of that name; UserError where there is none."""
    if name not in QUESTIONS:
        raise UserError(f"no question {name!r}: choose one of {', '.join(QUESTIONS)}")
    return QUESTIONS[name]


def arguments(name: str, given: Mapping[str, str], now_ms: int) -> dict[str, str]:
    """Values for all parameters of a question; UserError for one that is missing, unknown or of the wrong kind."""
    asked = question(name)
    if unknown := sorted(set(given) - set(asked.parameters)):
        known = ", ".join(asked.parameters) or "none"
        raise UserError(f"question {name} takes no parameter {unknown[0]!r}: it takes {known}")
    found = {}
    for parameter, said in asked.parameters.items():
        value = given.get(parameter, said.default)
        if value is None:
            raise UserError(f"question {name} needs --param {parameter}=VALUE: {said.said}")
        if value == NOW:
            value = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        whole = re.search(rf"{{{parameter}:(U?)Int\d+}}", asked.sql)
        if whole and not re.fullmatch(r"\d{1,9}" if whole[1] else r"-?\d{1,18}", value):
            raise UserError(f"--param {parameter}={value!r}: give a whole number ({said.said})")
        found[parameter] = value
    return found
