"""The folder in which a Slurm prolog notes the jobs of each GPU, as DCGM's exporter reads it (--hpc-job-mapping-dir).

A file is named by the GPU's index, or INDEX.INSTANCE for a MIG instance, and holds a job id a line; an epilog empties
it. It knows no rank, so it serves where the processes themselves cannot be read.
"""

import re
from collections.abc import Mapping
from pathlib import Path

FILE_BYTES = 64 << 10

_NAME = re.compile(r"\d+")


def parse_mapping(files: Mapping[str, str]) -> dict[int, str]:
    """The job id of each GPU by index, from the files' contents by name; a GPU of several jobs has none.

    Files of MIG instances are left out: an index and an instance's number do not name an instance for ever.

    >>> parse_mapping({"0": "71\\n", "1": "71\\n72\\n", "2": "\\n", "3.7": "71", "README": "x"})
    {0: '71'}
    """
    jobs: dict[int, str] = {}
    for name, text in files.items():
        ids = {line.strip() for line in text.splitlines() if line.strip()}
        if _NAME.fullmatch(name) and len(ids) == 1:
            jobs[int(name)] = ids.pop()
    return jobs


def read_mapping(folder: Path) -> dict[int, str]:
    """The same from a folder; nothing where there is none."""
    files: dict[str, str] = {}
    try:
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name) and path.is_file():
                with path.open("rb") as file:
                    files[path.name] = file.read(FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        pass  # no folder (yet), or a file that the epilog just took away
    return parse_mapping(files)
