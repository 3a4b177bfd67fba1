"""A stand-in for NCCL's RAS service: answers well, never, with a reset, or with nonsense."""

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Literal

Mood = Literal["well", "old", "silent", "stops", "reset", "garbage", "endless"]


class FakeRas:
    """One service on a port of its own; `received` are the commands it was sent."""

    def __init__(self, mood: Mood = "well", answer: bytes = b"{}") -> None:
        self.mood, self.answer = mood, answer
        self.received: list[bytes] = []
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "FakeRas":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            with connection, contextlib.suppress(OSError):
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        if self.mood == "reset":
            connection.recv(10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        if self.mood == "endless":
            while not self._closing.is_set():
                connection.sendall(b"x" * 1000)
            return
        with connection.makefile("rb") as lines:
            for line in lines:
                self.received.append(line)
                if self.mood == "silent":
                    self._closing.wait(5)
                    return
                if line.startswith(b"CLIENT PROTOCOL"):
                    connection.sendall(b"SERVER PROTOCOL 2\n")
                elif line.startswith(b"SET FORMAT") and self.mood == "old":
                    connection.sendall(b"ERROR: Unknown command\n")
                elif line.endswith(b"STATUS\n"):
                    if self.mood == "stops":
                        connection.sendall(self.answer[:10])
                        self._closing.wait(5)
                    else:
                        connection.sendall(b"\x00\xffnonsense" if self.mood == "garbage" else self.answer)
                    return
                else:
                    connection.sendall(b"OK\n")
