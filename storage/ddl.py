"""The SQL that makes a table, a column or a view: what migrations are written from.

`python -m storage.ddl` prints the statements for everything.
"""

from schemas.metrics import metric
from storage.comments import STORED_AT, comment
from storage.fields import Column
from storage.readings import Readings
from storage.tables import TABLES, Table
from storage.views import VIEWS


def column(table: Table, column: Column) -> str:
    """One column: name, type, codec, comment."""
    return (
        f"{quoted(column.name)} {column.stored.type} CODEC({column.stored.codec}) "
        f"COMMENT {literal(column_comment(table, column))}"
    )


def column_comment(table: Table, column: Column) -> str:
    """What the column means, with unit and source for a reading."""
    shape: object = table.shape
    if isinstance(shape, Readings) and column.part == "reading":
        return comment(table.name, column.name, metric(shape.section, column.name))
    return comment(table.name, column.name)


def create_table(table: Table) -> str:
    """The whole table; safe to run again."""
    lines = [column(table, c) for c in table.columns]
    lines.append(
        f"`stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT {literal(STORED_AT)}"
    )
    if table.ranged:
        lines.append(index(table))
    body = ",\n    ".join(lines)
    clauses = [
        f"CREATE TABLE IF NOT EXISTS {table.name}\n(\n    {body}\n)",
        "ENGINE = ReplacingMergeTree(ts)",
        f"PARTITION BY {table.partition}" if table.partition else "",
        f"ORDER BY ({', '.join(table.key)})",
        f"TTL {kept(table)}\nSETTINGS ttl_only_drop_parts = 1" if table.days else "",
        f"COMMENT {literal(table.what)}",
    ]
    return "\n".join(clause for clause in clauses if clause)


def index(table: Table) -> str:
    """The range of a column per granule."""
    return f"INDEX {table.ranged}_range {table.ranged} TYPE minmax"


def kept(table: Table) -> str:
    """Until when a row is kept: whole days are dropped, never single rows."""
    return f"toDateTime(stored_at) + INTERVAL {table.days} DAY"


def create_view(name: str) -> str:
    return f"CREATE OR REPLACE VIEW {name} AS\n{VIEWS[name]}"


def everything() -> str:
    """All statements, each ended by a semicolon at a line's end, as migrations are."""
    made = [create_table(table) for table in TABLES.values()] + [create_view(name) for name in VIEWS]
    return "\n".join(f"{statement};\n" for statement in made)


def quoted(name: str) -> str:
    return "`" + name + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    print(everything(), end="")
