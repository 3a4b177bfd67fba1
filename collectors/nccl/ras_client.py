"""NCCL's RAS service asked over its line protocol: read-only, bounded in time and size.

Only four commands are ever sent, none of which changes the job (the service has one that does, and no passwords).
"""

import socket
import time

ASK = (b"CLIENT PROTOCOL 2\n", b"TIMEOUT 15\n", b"SET FORMAT json\n")
STATUS = b"VERBOSE STATUS\n"

TIMEOUT_S = 25.0
"""The service gathers for 5 s and another 5 s where ranks do not answer, exactly when it matters."""

MOST_BYTES = 64 << 20


class RasUnreachable(Exception):
    """No answer: `reason` is refused, silent, closed or too_large."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def address(text: str) -> tuple[str, int]:
    """Host and port of "localhost:28028"; ValueError where it is none."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is no address like localhost:28028")
    return host.strip("[]"), int(port)


def ask(where: tuple[str, int], timeout_s: float = TIMEOUT_S) -> bytes:
    """The service's whole status, as JSON where it can, else as text. Raises RasUnreachable."""
    end_s = time.monotonic() + timeout_s
    try:
        with socket.create_connection(where, timeout=timeout_s) as connection:
            for command in ASK:
                connection.sendall(command)
                _line(connection, end_s)
            connection.sendall(STATUS)
            return _rest(connection, end_s)
    except ConnectionRefusedError:
        raise RasUnreachable("refused", f"nobody listens at {where[0]}:{where[1]}") from None
    except TimeoutError:
        raise RasUnreachable("silent", f"no answer from {where[0]}:{where[1]} within {timeout_s:g} s") from None
    except OSError as error:
        raise RasUnreachable("closed", f"{where[0]}:{where[1]}: {error.strerror or error}") from None


def _line(connection: socket.socket, end_s: float) -> bytes:
    """One line of an answer to a command (an ERROR is one too: an older service knows no formats)."""
    line = b""
    while not line.endswith(b"\n"):
        connection.settimeout(_left(end_s))
        byte = connection.recv(1)
        if not byte:
            raise RasUnreachable("closed", "the service closed the connection before it answered")
        line += byte
        if len(line) > 4096:
            raise RasUnreachable("too_large", "the service's answer has no end of line: another service?")
    return line


def _rest(connection: socket.socket, end_s: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        connection.settimeout(_left(end_s))
        part = connection.recv(1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise RasUnreachable("too_large", f"an answer of more than {MOST_BYTES} bytes")


def _left(end_s: float) -> float:
    left = end_s - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
