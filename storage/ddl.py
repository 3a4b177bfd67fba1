"""The SQL that makes a table, a column or a view: what migrations are written from.

`python -m storage.ddl` prints the statements for everything.
"""

from schemas.metrics import metric
from storage.comments import STORED_AT, comment
from storage.fields import Column
from storage.readings import Readings
from storage.roll import MARKS
from storage.rollups import ROLLUPS, Rolled, Rollup
from storage.tables import TABLES, Table
from storage.views import VIEWS


def column(table: Table | Rollup, column: Column | Rolled) -> str:
    """One column: name, type, codec, comment. What a row does not say, because an older writer stored it or it was
    there before the column, is missing: NaN where the type has one."""
    default = " DEFAULT nan" if column.stored.type in FLOATS else ""
    return (
        f"{quoted(column.name)} {column.stored.type}{default} CODEC({column.stored.codec}) "
        f"COMMENT {literal(column_comment(table, column))}"
    )


def column_comment(table: Table | Rollup, column: Column | Rolled) -> str:
    """What the column means, with unit and source for a reading."""
    if isinstance(table, Rollup) or isinstance(column, Rolled):
        assert isinstance(column, Rolled)
        return column.said
    shape: object = table.shape
    if isinstance(shape, Readings) and column.part == "reading":
        return comment(table.name, column.name, metric(shape.section, column.name))
    return comment(table.name, column.name)


def create_table(table: Table | Rollup) -> str:
    """The whole table; safe to run again."""
    lines = [column(table, c) for c in table.columns]
    lines.append(
        f"`stored_at` DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT {literal(STORED_AT)}"
    )
    lines += [index(name) for name in table.ranged]
    body = ",\n    ".join(lines)
    clauses = [
        f"CREATE TABLE IF NOT EXISTS {table.name}\n(\n    {body}\n)",
        f"ENGINE = ReplacingMergeTree({table.version})",
        f"PARTITION BY {table.partition}" if table.partition else "",
        f"ORDER BY ({', '.join(table.key)})",
        f"TTL {kept(table)}\nSETTINGS ttl_only_drop_parts = 1" if table.days else "",
        f"COMMENT {literal(table.what)}",
    ]
    return "\n".join(clause for clause in clauses if clause)


def index(column: str) -> str:
    """The range of a column per granule."""
    return f"INDEX {column}_range {column} TYPE minmax"


def kept(table: Table | Rollup) -> str:
    """Until when a row is kept: whole days are dropped, never single rows."""
    return f"toDateTime(stored_at) + INTERVAL {table.days} DAY"


def create_view(name: str) -> str:
    return f"CREATE OR REPLACE VIEW {name} AS\n{VIEWS[name]}"


def everything() -> str:
    """All statements, each ended by a semicolon at a line's end, as migrations are."""
    made = [create_table(table) for table in MADE]
    made += [CREATE_MARKS, *(create_view(name) for name in VIEWS)]
    return "\n".join(f"{statement};\n" for statement in made)


MADE: tuple[Table | Rollup, ...] = (*TABLES.values(), *ROLLUPS.values())
"""Every table that is made from a declaration."""

FLOATS = ("Float32", "Float64")

CREATE_MARKS = f"""CREATE TABLE IF NOT EXISTS {MARKS}
(
    `name` LowCardinality(String) COMMENT 'the roll-up',
    `through_ms` UInt64 COMMENT 'raw rows stored before it, in milliseconds since 1970, are in the roll-up'
)
ENGINE = ReplacingMergeTree(through_ms)
ORDER BY name
COMMENT 'how far each roll-up is computed'"""


def quoted(name: str) -> str:
    return "`" + name + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    print(everything(), end="")
