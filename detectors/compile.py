"""Loops over numbers as machine code, made when they are first called.

Compiled functions may call each other: a pass over all GPUs of a node is put together from the parts that the single
subjects give, and is still one call.
"""

from collections.abc import Callable, Iterator
from functools import update_wrapper
from hashlib import blake2b
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Compiled(Generic[Arguments, Result]):
    """A function that numba compiles at its first call (numba is imported only then).

    The machine code is cached on disk where some folder allows it; a read-only install with a read-only home does
    not, and then it is made in memory at each start.
    """

    for_python = True

    def __init__(self, function: Callable[Arguments, Result]) -> None:
        self._function = function
        self._machine: Any = None
        update_wrapper(self, function)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        result: Result = (self._machine or self._made())(*args, **kwargs)
        return result

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of a global that it meets in the body of another compiled function."""
        from numba.core.types import Dispatcher

        return Dispatcher(self._machine or self._made())

    @property
    def mark(self) -> str:
        """A digest of all that the machine code is made of: this function, the constants and the functions it uses.

        numba looks for changes in the function's own file only. With the mark in its name, machine code on disk is
        never that of an older part.
        """
        return blake2b("\n".join(_ingredients(self._function)).encode(), digest_size=6).hexdigest()

    def _made(self) -> Any:
        from numba import njit

        function = self._function
        function.__qualname__ = f"{function.__qualname__}_{self.mark}"
        options: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "no_cpython_wrapper": not self.for_python}
        try:
            self._machine = njit(cache=True, **options)(function)
        except RuntimeError:
            self._machine = njit(**options)(function)
        return self._machine


class Part(Compiled[Arguments, Result]):
    """A compiled function that only compiled ones call. It has no entry for Python, which is half the work of compiling
    a short one; called from Python it is the plain function."""

    for_python = False

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self._function(*args, **kwargs)


def compiled(function: Callable[Arguments, Result]) -> Compiled[Arguments, Result]:
    """`function` as machine code."""
    return Compiled(function)


def part(function: Callable[Arguments, Result]) -> Part[Arguments, Result]:
    """`function` as machine code for other compiled functions only."""
    return Part(function)


def _ingredients(function: Callable[..., Any]) -> Iterator[str]:
    code = function.__code__
    yield f"{code.co_code.hex()} {code.co_consts} {code.co_names} {code.co_varnames}"
    for name in code.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, Compiled):
            yield from _ingredients(value._function)
        elif isinstance(value, np.ndarray):
            yield f"{name} {value.dtype} {value.shape} {value.tobytes().hex()}"
        elif isinstance(value, int | float | tuple):
            yield f"{name} {value!r}"
