"""A producer and the broker behind it: answers at once, later, never, or with an error."""

from collections.abc import Callable

OnDone = Callable[[Exception | None], None]


class FakeSender:
    """Keeps what the broker has in `received`; `down` makes it answer nothing until `fail_all` or `answer_all`."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, bytes]] = []
        self.waiting: list[tuple[tuple[str, str, bytes], OnDone | None]] = []
        self.down = False
        self.refuse: Callable[[bytes], Exception | None] = lambda value: None
        self.closed = False

    def send(self, topic: str, key: str, value: bytes, on_done: OnDone | None = None) -> None:
        self.waiting.append(((topic, key, value), on_done))
        if not self.down:
            self.answer_all()

    def answer_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for message, on_done in waiting:
            error = self.refuse(message[2])
            if error is None:
                self.received.append(message)
            if on_done is not None:
                on_done(error)

    def fail_all(self, error: Exception) -> None:
        waiting, self.waiting = self.waiting, []
        for _, on_done in waiting:
            if on_done is not None:
                on_done(error)

    def flush(self, timeout_s: float) -> bool:
        return not self.waiting

    def close(self, timeout_s: float) -> None:
        self.closed = True
        self.fail_all(ConnectionError("closed"))
