"""Where the tables are made: on one server, or on every replica of a cluster. The one place that knows.

Tables, views and migrations are written for one server. With a cluster's name (LOCKSTEP_CLICKHOUSE_CLUSTER) each
statement is run ON CLUSTER and the engines are replicated: each replica holds everything, and the server's own macros
{shard} and {replica} say which it is.
"""

import re

_ENGINE = re.compile(r"\bENGINE = (ReplacingMergeTree|MergeTree)\b")
_DATABASE = re.compile(r"^(CREATE|DROP) DATABASE (IF (?:NOT )?EXISTS )?(`?\w+`?)", re.IGNORECASE)
_OBJECT = re.compile(
    r"^(CREATE (?:OR REPLACE )?(?:TABLE|VIEW)|DROP (?:TABLE|VIEW)|(?:ALTER|TRUNCATE|OPTIMIZE|RENAME) TABLE)"
    r" (IF (?:NOT )?EXISTS )?((?:`?\w+`?\.)?`?\w+`?)",
    re.IGNORECASE,
)


def placed(statement: str, cluster: str) -> str:
    """`statement` as it is run: itself on one server (`cluster` ""), else on every replica of the cluster.

    >>> placed("CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a", "")
    'CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a'
    >>> placed("ALTER TABLE t ADD COLUMN b Int8", "fleet")
    "ALTER TABLE t ON CLUSTER 'fleet' ADD COLUMN b Int8"
    """
    if not cluster:
        return statement
    where = f" ON CLUSTER '{cluster}'"
    for known in (_DATABASE, _OBJECT):
        if known.match(statement):
            placed_one = known.sub(lambda found: found[0] + where, statement, count=1)
            return _ENGINE.sub(lambda found: f"ENGINE = Replicated{found[1]}", placed_one)
    return statement
