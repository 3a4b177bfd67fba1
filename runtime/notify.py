"""Word to systemd: ready, still alive, stopping (sd_notify(3): one datagram to the socket named in the environment)."""

import socket
from collections.abc import Mapping


class Manager:
    """Whoever runs this process and asked to be told; without NOTIFY_SOCKET every call does nothing.

    >>> Manager({}).tell("READY=1")
    False
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._said = ""

    def tell(self, *states: str) -> bool:
        """Send "READY=1", "WATCHDOG=1", "STOPPING=1", "STATUS=..."; whether it was taken. Never waits or raises."""
        if not self._address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
                link.setblocking(False)
                link.sendto("\n".join(states).encode(), self._address)
        except OSError:
            return False
        return True

    def alive(self, status: str = "") -> None:
        """Once a tick: READY=1 the first time, the watchdog's word, and the status where it changed."""
        states = ["WATCHDOG=1"] if self._said else ["READY=1", "WATCHDOG=1"]
        if status != self._said:
            states.append(f"STATUS={status}")
        self._said = status or "-"
        self.tell(*states)
