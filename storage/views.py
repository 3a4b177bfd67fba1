"""Views for people and dashboards: what everybody would otherwise join by hand. `docs/sql.md` shows them at work.

Each is a file in `storage/sql/views`, with what it is in the comment at its head. They read with FINAL, so that nothing
counts twice before a merge, and none but `v_fleet_now` asks what time it is: whoever asks of them says it.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "sql"

_NAMES = (
    "v_incidents",
    "v_culprits",
    "v_fleet_now",
    "v_gpu_scores",
    "v_bus_bandwidth",
    "v_group_bandwidth",
    "v_job_hours",
    "v_time_lost",
    "v_rack_nvlink",
    "v_rack_cooling",
    "v_gpu_history",
    "v_job_history",
    "v_xids",
    "v_risks",
    "v_gpu_days",
)
"""In the order in which they are made: one may read another."""


def commented(path: Path) -> tuple[list[str], str]:
    """The comment lines at the head of a SQL file, without their dashes, and the statement."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = 0
    while lines[head].startswith("--"):
        head += 1
    return [line[2:].strip() for line in lines[:head]], "\n".join(lines[head:])


VIEWS: dict[str, str] = {name: commented(FOLDER / "views" / f"{name}.sql")[1] for name in _NAMES}

VIEW_NOTES: dict[str, str] = {name: " ".join(commented(FOLDER / "views" / f"{name}.sql")[0]) for name in _NAMES}
"""What each view is, in words."""
