"""Which module comes with which extra of the distribution, and what is to be said where one is missing."""

import importlib.util
import sys

from runtime.errors import UserError

EXTRAS = {
    "faust": "worker",
    "mode": "worker",
    "aiokafka": "worker",
    "numba": "worker",
    "sklearn": "worker",
    "clickhouse_connect": "storage",
    "urllib3": "alerts",
    "pyarrow": "files",
    "aiohttp": "embedded",
    "chdb": "embedded",
    "confluent_kafka": "embedded",
}

WHOLE = ("up", "demo")
"""The commands that run everything by themselves; who reads no files needs no `files`."""


def lacking() -> dict[str, list[str]]:
    """By extra, the modules that are not installed."""
    found: dict[str, list[str]] = {extra: [] for extra in EXTRAS.values()}
    for module, extra in EXTRAS.items():
        # One that is loaded already needs no looking for, and may have lost its spec (Faust replaces itself).
        if sys.modules.get(module) is None and importlib.util.find_spec(module) is None:
            found[extra].append(module)
    return found


def lacking_for_whole() -> list[str]:
    """What one machine lacks to run everything by itself."""
    return [module for extra, modules in lacking().items() if extra != "files" for module in modules]


def not_installed(command: str, modules: list[str]) -> UserError:
    """One line: who needs what, and how to get it."""
    extras = {EXTRAS[module] for module in modules}
    extra = extras.pop() if len(extras) == 1 and command not in WHOLE else "all"
    needed, verb = ", ".join(modules), "is" if len(modules) == 1 else "are"
    return UserError(
        f"`lockstep {command}` needs {needed}, which {verb} not installed: pip install 'gpu-lockstep[{extra}]'"
    )
