"""Why a file is not read, and what would be: printed pages, tables of other columns, files that are no text."""

import re
from pathlib import Path

from lockstep.analyze.files import head, oddity
from lockstep.analyze.recognise import csv_columns, json_object

PAGE = re.compile(rb"NVSMI LOG|\| NVIDIA-SMI \d")

NAMED = 12
"""Columns that are named of a table."""

WORD = re.compile(r"[A-Za-z_][\w .()\[\]/%-]{0,60}")


def hint(path: Path) -> str:
    """What the file seems to be, in a few words; "" where nothing can be said."""
    start = head(path)
    if not start:
        return "it is empty"
    if odd := oddity(start):
        return odd
    if PAGE.search(start):
        return "nvidia-smi's printed page is not read; use nvidia-smi --query-gpu=... --format=csv"
    if binary(start):
        return "not a text file"
    columns = sorted(csv_columns(start))
    rows = [row for row in map(json_object, start.splitlines()[:1]) if row is not None]
    columns = sorted(rows[0]) if rows else columns
    if rows or (len(columns) > 1 and all(WORD.fullmatch(name) for name in columns)):
        more = f" and {len(columns) - NAMED} more" if len(columns) > NAMED else ""
        return f"no known kind has these columns: {', '.join(columns[:NAMED])}{more}"
    return ""


def binary(start: bytes) -> bool:
    """Whether bytes like these are no text: then no kind of text can be said of them."""
    return b"\0" in start[:4096]
