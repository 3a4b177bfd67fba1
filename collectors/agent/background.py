"""One piece of slow work at a time, beside the agent's ticks."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Runs a function in a thread of its own; its result is taken at a later tick. The work must end by itself: a
    thread cannot be ended from outside, and the process does not wait for it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._done: list[T | BaseException] = []

    @property
    def busy(self) -> bool:
        """Whether something runs, or its result was not taken yet."""
        return self._thread is not None

    def start(self, work: Callable[[], T]) -> None:
        """Begin; only where not `busy`."""
        self._done = []
        done = self._done

        def run() -> None:
            try:
                done.append(work())
            except BaseException as error:
                done.append(error)

        self._thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._thread.start()

    def take(self) -> T | None:
        """The result once it is there; raises what the work raised. None while it runs, or where nothing was begun."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        (result,) = self._done
        if isinstance(result, BaseException):
            raise result
        return result
