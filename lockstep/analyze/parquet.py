"""Parquet files; the only place that imports pyarrow."""

from collections.abc import Iterator, Sequence
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
        file = pyarrow.parquet.ParquetFile(path)
        _ = file.schema_arrow.names  # here, where names that are no text are a damaged file
        return file
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: no readable Parquet file: {str(error).splitlines()[0]}") from None


def batches(path: Path, file: Any, columns: Sequence[str], rows: int = 16_384) -> Iterator[Any]:
    """The named columns of an opened file, `rows` at a time; UserError where the file is damaged further on."""
    import pyarrow

    try:
        yield from file.iter_batches(batch_size=rows, columns=list(columns))
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: damaged Parquet file: {str(error).splitlines()[0]}") from None
