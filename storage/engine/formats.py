"""Output formats: which may be sent block by block, and their content types."""

DEFAULT = "TabSeparated"
"""What ClickHouse answers with over HTTP when nobody names a format."""

STREAMED = frozenset(
    {
        "Native",
        "TabSeparated",
        "TabSeparatedRaw",
        "TSV",
        "TSVRaw",
        "Raw",
        "CSV",
        "RowBinary",
        "JSONEachRow",
        "JSONLines",
        "NDJSON",
        "JSONCompactEachRow",
        "LineAsString",
    }
)
"""Formats without a head or a foot. The engine encodes each block of a streamed result alone, so only these may be
joined; any other is written to a file first."""

_TYPES = (
    ("JSONEachRow", "application/x-ndjson; charset=UTF-8"),
    ("JSON", "application/json; charset=UTF-8"),
    ("CSV", "text/csv; charset=UTF-8"),
    ("TabSeparated", "text/tab-separated-values; charset=UTF-8"),
    ("TSV", "text/tab-separated-values; charset=UTF-8"),
    ("XML", "application/xml; charset=UTF-8"),
    *((binary, "application/octet-stream") for binary in ("Native", "RowBinary", "Parquet", "Arrow", "ORC", "Avro")),
)


def content_type(format: str) -> str:
    """The Content-Type of an answer in `format`."""
    return next((kind for start, kind in _TYPES if format.startswith(start)), "text/plain; charset=UTF-8")
