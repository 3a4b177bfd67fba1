"""Parquet files; the only place that imports pyarrow."""

from pathlib import Path
from typing import Any

from runtime.errors import UserError


def open_parquet(path: Path) -> Any:
    """The file, to be read in batches. Raises UserError where it cannot be, or where pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise UserError(
            f"{path}: Parquet needs pyarrow, which is not installed: pip install 'gpu-lockstep[files]'"
        ) from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: no readable Parquet file: {str(error).splitlines()[0]}") from None
