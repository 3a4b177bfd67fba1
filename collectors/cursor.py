"""Small marks that may be lost by a tick or two in a crash, but never be torn: how far a reader has come."""

from pathlib import Path


def load(path: Path) -> str:
    """What was saved last; "" where there is nothing readable."""
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def save(path: Path, mark: str) -> bool:
    """Replace the mark at once, not forced to disk: reading a little twice costs less than syncing every second.

    False where the disk does not take it.
    """
    temporary = path.with_name(f".{path.name}")
    try:
        temporary.write_text(mark, "ascii")
        temporary.replace(path)
    except OSError:
        return False
    return True
