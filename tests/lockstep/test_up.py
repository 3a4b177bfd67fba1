"""`lockstep up` while it runs."""

import threading

from lockstep.commands.up import others


class Restarting:
    """A supervisor whose broker dies between the second and the third look."""

    def __init__(self, stop: threading.Event) -> None:
        self.addresses = {"broker": "127.0.0.1:1", "database": "127.0.0.1:8123"}
        self.looks, self.stop = 0, stop

    def tend(self) -> None:
        self.looks += 1
        if self.looks == 2:
            self.addresses["broker"] = "127.0.0.1:2"
        if self.looks == 3:
            self.stop.set()


def test_where_the_broker_is_after_it_died_is_said_once() -> None:
    stop = threading.Event()
    said = list(others(Restarting(stop), stop))
    assert said == [{"broker": "127.0.0.1:2", "database": "127.0.0.1:8123"}]
