"""The kernel's own bound on the engine: whatever a statement asks for, only the data folder is there.

Landlock (Linux 5.13 or newer) takes from this thread, and from those it starts, all files but a few and, from Linux
6.7 on, all outgoing connections. `forbidden` and the engine's grants say no in words; this holds where they are wrong.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The same on every architecture."""

_PATH_BENEATH, _VERSION, _NO_NEW_PRIVILEGES = 1, 1, 38

_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_ALL_OF_FIRST = (1 << 13) - 1
_OF_FILES = _EXECUTE | _WRITE | _READ | 1 << 14
_CONNECT_TCP = 2

_READABLE = (
    *("/usr", "/lib", "/lib64", "/etc/localtime", "/etc/timezone", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom"),
    *("/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/sys", "/proc/self/statm"),
    *("/proc/self/stat", "/proc/self/status", "/proc/self/maps", "/proc/self/cgroup", "/proc/self/mountinfo"),
    *("/proc/self/auxv", "/sys/kernel/mm/transparent_hugepage"),
    *("/sys/devices/system", "/sys/fs/cgroup"),
)
"""What libraries and the engine's own metrics open. Not the whole of /proc: it has the environment and its secrets.

Never without /proc/self/auxv: ClickHouse's own getauxval then takes what lies behind `environ` for it, which is the
heap once a variable was set, and the library falls by SIGSEGV at its start or not, as the heap has it.
"""


def confine(folder: Path) -> bool:
    """Bound this thread, and those it starts from now on, to `folder`; False where the kernel cannot.

    For good: nothing takes it back. Files that are open already stay so.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return False
    everything = _ALL_OF_FIRST | (1 << 13 if version >= 2 else 0) | (1 << 14 if version >= 3 else 0)
    attributes = struct.pack("=QQ", everything, _CONNECT_TCP)[: 16 if version >= 4 else 8]
    rules = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return False
    try:
        _allow(libc, rules, [os.fspath(folder)], everything)
        _allow(libc, rules, (*_READABLE, *_python()), _EXECUTE | _READ | _LIST)
        return not (libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)


def _python() -> tuple[str, ...]:
    """Where modules may still be imported from."""
    return (sys.prefix, sys.base_prefix, os.fspath(Path(__file__).resolve().parents[2]))


def _allow(libc: ctypes.CDLL, rules: int, paths: Iterable[str], access: int) -> None:
    for path in paths:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # not every system has every one
            continue
        rights = access if Path(path).is_dir() else access & _OF_FILES
        libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
        os.close(descriptor)
