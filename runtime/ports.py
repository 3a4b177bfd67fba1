"""Ports on this machine: is one free, and give me a free one."""

import socket

from runtime.errors import UserError


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on now. Somebody may take it before you do: only for processes started at once."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def require_free(port: int, what: str, option: str, host: str = "127.0.0.1") -> None:
    """UserError in one line where `port` is taken; `option` is how to choose another."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"{what} cannot listen on {host}:{port}: {error.strerror}; choose another by {option}"
            ) from None
