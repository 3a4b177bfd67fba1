"""Lines that processes of this node send to a Unix datagram socket: nothing to rotate, and nobody ever waits.

The kernel tells whose each datagram is (its process id as this process sees it, container or not). Its queue is short
(net.unix.max_dgram_qlen, 10 by default), so a thread empties it all the time.
"""

import contextlib
import os
import socket
import struct
import threading
from collections import deque
from pathlib import Path

from runtime.errors import UserError
from runtime.health import Counters

DATAGRAM_BYTES = 64 << 10
WAITING_BYTES = 4 << 20
"""What waits for the next tick at most: four thousand ranks' lines, or a process that floods."""

WAITING_LINES = 16_384
"""... and so many lines: a tick is not long enough to read more, and what is over the bound costs no work."""

LOOK_S = 0.5
"""How soon the thread notices that it is to end."""

_CREDENTIALS = struct.Struct("3i")


class DatagramLines:
    """A LineSource over the socket at `path`, which it makes; the source of a line is "pidPID".

    Any user may send: ranks are not root. What does not fit is counted in `counters` as dropped{line_bytes_behind}.
    UserError where the socket cannot be made, or another process listens on it.
    """

    def __init__(self, path: Path, counters: Counters) -> None:
        self._path, self._counters = path, counters
        self._lines: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._socket = _bound(path)
        self._inode = os.stat(path).st_ino
        self._thread = threading.Thread(target=self._receive, name="datagrams", daemon=True)
        self._thread.start()

    def read(self) -> list[tuple[str, bytes]]:
        """New lines in the order of their arrival; makes the socket anew where somebody removed it."""
        if self._removed():
            with contextlib.suppress(UserError):
                fresh = _bound(self._path)
                self._inode = os.stat(self._path).st_ino
                old, self._socket = self._socket, fresh
                old.close()
        with self._lock:
            lines, self._lines, self._bytes = list(self._lines), deque(), 0
        return lines

    def close(self) -> None:
        """End the thread and remove the socket."""
        self._stop.set()
        self._thread.join()
        self._socket.close()
        if not self._removed():
            self._path.unlink(missing_ok=True)

    def _removed(self) -> bool:
        try:
            return os.stat(self._path).st_ino != self._inode
        except OSError:
            return True

    def _receive(self) -> None:
        while not self._stop.is_set():
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(DATAGRAM_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
            except TimeoutError:
                continue
            except OSError:  # closed under us: made anew by `read`
                self._stop.wait(LOOK_S)
                continue
            if flags & socket.MSG_TRUNC:
                self._counters.add("dropped", label="line_too_long")
                continue
            self._keep(_sender(ancillary), data)

    def _keep(self, source: str, data: bytes) -> None:
        with self._lock:
            for line in filter(None, data.split(b"\n")):
                self._lines.append((source, line))
                self._bytes += len(line)
            while self._bytes > WAITING_BYTES or len(self._lines) > WAITING_LINES:
                gone = len(self._lines.popleft()[1])
                self._bytes -= gone
                self._counters.add("dropped", gone, "line_bytes_behind")


def _bound(path: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    link.settimeout(LOOK_S)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_socket():
            _require_silence(path)
            path.unlink()
        link.bind(str(path))
        path.chmod(0o666)
    except OSError as error:
        link.close()
        raise UserError(f"socket {path}: {error.strerror or error}; choose another by --steps-socket") from None
    except UserError:
        link.close()
        raise
    return link


def _require_silence(path: Path) -> None:
    """UserError where a process listens at `path`: a socket that was left behind refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise UserError(f"another process listens at {path}; give each agent its own by --steps-socket")


def _sender(ancillary: list[tuple[int, int, bytes]]) -> str:
    """ "pidPID" of the kernel's word on the sender; "" where it is in a namespace that this process cannot see."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) >= _CREDENTIALS.size:
            pid = _CREDENTIALS.unpack_from(data)[0]
            return f"pid{pid}" if pid else ""
    return ""
