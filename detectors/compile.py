"""Loops over numbers as machine code, made when they are first called."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def compiled(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`function`, compiled by numba at its first call (and numba imported only then).

    The machine code is cached on disk where some folder allows it; a read-only install with a read-only home does
    not, and then it is made in memory at each start.
    """

    machine: Any = None

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        nonlocal machine
        if machine is None:
            machine = _made(function)
        result: Result = machine(*args, **kwargs)
        return result

    return call


def _made(function: Callable[..., Any]) -> Any:
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)
