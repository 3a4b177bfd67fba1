"""The SQL of the runbooks is what ClickHouse understands, over the tables there are."""

import re
from pathlib import Path

from storage.client import Client, ask

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"


def test_every_statement_of_the_runbooks_can_be_run(database: Client) -> None:
    statements = [
        statement
        for page in sorted(RUNBOOKS.glob("*.md"))
        for statement in re.findall(r'^lockstep query "(.*)"$', page.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(statements) > 20
    for statement in statements:
        ask(database, statement, "JSON")
