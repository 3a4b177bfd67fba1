"""Command-line options made from a process's settings, so that each setting is declared once.

A field `broker` becomes `--broker`, read from LOCKSTEP_BROKER where it is not given. Secrets have no option, because
a process list shows them: they come from the environment only.
"""

import math
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import click
import msgspec
from msgspec import Meta

from runtime.errors import BrokerUnreachable
from runtime.log import configure
from runtime.settings import PREFIX, choices, from_environment
from runtime.signals import set_on

S = TypeVar("S", bound=msgspec.Struct)
F = TypeVar("F", bound=Callable[..., Any])

SECRET = ("password", "routing_key", "token", "secret")


def settings_options(
    cls: type[msgspec.Struct], *, hidden: tuple[str, ...] = (), defaults: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[F], F]:
    """An option for every field of `cls` but secrets and `hidden`; the command gets them as keyword arguments.

    `defaults` are the command's own, which its help shows in place of those of `cls`."""

    def decorate(function: F) -> F:
        hints = get_type_hints(cls, include_extras=True)
        for field in reversed(msgspec.structs.fields(cls)):
            if field.name in hidden or any(word in field.name for word in SECRET):
                continue
            said = _description(hints[field.name])
            usual = defaults.get(field.name, field.default)
            default = "" if field.required or usual in ("", None) else f"  [default: {_shown(usual)}]"
            function = click.option(
                f"--{field.name.replace('_', '-')}",
                field.name,
                metavar=_metavar(hints[field.name]),
                help=f"{said} [{PREFIX}{field.name.upper()}]{default}".strip(),
            )(function)
        return function

    return decorate


class Number(click.FloatRange):
    """A float option: in its range, and finite. click lets nan through every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def say(line: str) -> None:
    """A line for the person who watches: on standard error, apart from what the command prints."""
    click.echo(line, err=True)


def program() -> str:
    """What a shell here runs this program by: its name where it is on the path, else where it is."""
    here = Path(sys.argv[0])
    if here.name != "lockstep" or shutil.which("lockstep"):
        return "lockstep"
    return shlex.quote(os.path.relpath(here) if here.is_relative_to(Path.cwd()) else str(here))


def settings(cls: type[S], options: dict[str, Any]) -> S:
    """The settings of a process from its options and the environment; UserError where one makes no sense."""
    known = {field.name for field in msgspec.structs.fields(cls)}
    return from_environment(cls, os.environ, **{name: v for name, v in options.items() if name in known})


def run_until_signal(process: str, run: Callable[[threading.Event], None]) -> None:
    """Set up logging, run a service, and stop it in order on SIGTERM or Ctrl-C, also while it waits for a broker."""
    configure(process)
    stop = threading.Event()
    set_on(stop, signal.SIGTERM, signal.SIGINT)
    try:
        run(stop)
    except BrokerUnreachable:
        if not stop.is_set():
            raise


def _description(hint: Any) -> str:
    """Also of an optional one: `Annotated[int, Meta(...)] | None`."""
    if get_origin(hint) is not Annotated:
        return next((said for part in get_args(hint) if (said := _description(part))), "")
    metas = [meta for meta in get_args(hint)[1:] if isinstance(meta, Meta) and meta.description]
    # The last is the field's own, before it come those of the type it is made of.
    return f"{metas[-1].description}." if metas else _description(get_args(hint)[0])


def _metavar(hint: Any) -> str:
    if choices(hint):
        return "|".join(choices(hint))
    parts = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
    known = {int: "N", float: "X", bool: "yes|no", str: "TEXT"}
    return known.get(hint) or next((_metavar(part) for part in parts), "TEXT")


def _shown(default: Any) -> str:
    return ("no", "yes")[default] if isinstance(default, bool) else str(default)


def service_command(
    process: str, cls: type[S], run: Callable[[S, threading.Event], None], *, does: str, example: str
) -> click.Command:
    """The command of a long-running process whose only options are its settings."""

    @click.command(name=process, help=does, epilog=f"Example: {example}")
    @settings_options(cls)
    def command(**options: Any) -> None:
        chosen = settings(cls, options)
        run_until_signal(process, lambda stop: run(chosen, stop))

    return command
