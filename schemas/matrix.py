"""A float32 matrix with named rows and columns: how readings travel.

Missing is NaN, never 0 or -1. Names travel with the numbers, so a reader that does not know a column leaves it
out instead of misreading its neighbour, and an old writer can speak to a new reader. Kafka's batch compression
makes the repeated names nearly free.
"""

from collections.abc import Sequence
from typing import Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Float32 = NDArray[np.float32]

LITTLE = np.dtype("<f4")
"""How numbers are kept, whatever the machine."""


LONGEST_NAME = 256
"""Letters of a row's or column's name, as of every other name in a record."""


class Matrix(msgspec.Struct, frozen=True, array_like=True):
    """`rows` x `columns` little-endian float32 values in row order.

    >>> m = Matrix.of(["GPU-1"], ["power_w", "temperature_c"], [[700.0, 61.0]])
    >>> float(m.values()[0, 1])
    61.0
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    data: bytes

    def __post_init__(self) -> None:
        rows, columns, size = self.rows, self.columns, len(self.data)
        if size != 4 * len(rows) * len(columns):
            raise ValueError(f"matrix data has {size} bytes, {4 * len(rows) * len(columns)} expected")
        if len(set(columns)) != len(columns):
            raise ValueError("matrix columns repeat a name")
        if len(set(rows)) != len(rows):
            raise ValueError("matrix rows repeat a name")
        if not all(0 < len(name) <= LONGEST_NAME for name in (*rows, *columns)):
            raise ValueError(f"a matrix row or column has no name, or one of more than {LONGEST_NAME} letters")

    @classmethod
    def of(cls, rows: Sequence[str], columns: Sequence[str], values: ArrayLike) -> Self:
        """Pack `values` of shape (rows, columns); raises ValueError where the shape is another."""
        array = (
            np.ascontiguousarray(values, dtype="<f4").reshape(-1, len(columns)) if len(columns) else np.empty((0, 0))
        )
        if len(columns) and array.shape[0] != len(rows):
            raise ValueError(f"{array.shape[0]} rows of values for {len(rows)} names")
        return cls(tuple(rows), tuple(columns), array.tobytes())

    def values(self) -> Float32:
        """The numbers, shape (rows, columns), read-only."""
        return np.frombuffer(self.data, LITTLE).reshape(len(self.rows), len(self.columns))

    def with_data(self, data: bytes) -> Self:
        """The same names with other numbers; raises ValueError where there are more or fewer of them.

        Names that were looked at once are not looked at again, which costs more than all the rest of a matrix.
        """
        if len(data) != len(self.data):
            raise ValueError(f"matrix data has {len(data)} bytes, {len(self.data)} expected")
        matrix: Self = self.__copy__()  # type: ignore[attr-defined]  # it has one; its types do not say so
        msgspec.structs.force_setattr(matrix, "data", data)
        return matrix

    def row(self, place: int) -> dict[str, float]:
        """The row at `place` by column, without what is missing; nothing where there are no columns."""
        width = len(self.columns)
        if not width:
            return {}
        values = np.frombuffer(self.data, LITTLE, width, 4 * width * place).tolist()
        return {name: value for name, value in zip(self.columns, values, strict=True) if value == value}

    def select(self, columns: Sequence[str]) -> Float32:
        """The named columns in that order, shape (rows, len(columns)); NaN for a column that is not here."""
        here = {name: i for i, name in enumerate(self.columns)}
        out = np.full((len(self.rows), len(columns)), np.nan, dtype=np.float32)
        values = self.values()
        for j, name in enumerate(columns):
            if name in here:
                out[:, j] = values[:, here[name]]
        return out

    def column(self, name: str) -> Float32:
        """One column, shape (rows,); all NaN where it is absent."""
        out: Float32 = self.select([name])[:, 0]
        return out
