"""`lockstep`: every command is one module of `lockstep.commands`, imported only when it is called.

So the agent on a node never imports what only a worker needs, and `--help` is quick.
"""

import contextlib
import errno
import importlib
import os
import sys
from typing import Any

import click

from lockstep.extras import EXTRAS, WHOLE, lacking_for_whole, not_installed
from lockstep.group import Group, in_one_line, plainly
from lockstep.variables import from_file, warn_of_unknown
from runtime.errors import UserError

# name: (module with `command`, one line for the list)
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("lockstep.commands.demo", "A simulated fleet with one fault, found and explained."),
    "up": ("lockstep.commands.up", "Everything on this machine: broker, workers, database, alerts."),
    "analyze": ("lockstep.commands.analyze", "Find stragglers and hangs in files you already have."),
    "agent": ("lockstep.commands.agent", "The agent of a node: collect and publish."),
    "worker": ("lockstep.commands.worker", "Detection: baselines, forest, stragglers, incidents."),
    "writer": ("lockstep.commands.writer", "Topics into ClickHouse."),
    "alerts": ("lockstep.commands.alerts", "Incidents to PagerDuty, Slack, Alertmanager or a webhook."),
    "broker": ("lockstep.commands.broker", "The embedded broker, for one machine."),
    "storage": ("lockstep.commands.storage", "ClickHouse: migrate, check, serve the embedded engine."),
    "topics": ("lockstep.commands.topics", "Create topics, look at what is on them."),
    "replay": ("lockstep.commands.replay", "Recorded telemetry onto the topics, at any speed."),
    "query": ("lockstep.commands.query", "Ask the history in SQL."),
    "train": ("lockstep.commands.train", "A forest for your fleet, from its own healthy past."),
    "models": ("lockstep.commands.models", "Which forest scores the GPUs: show, publish, go back."),
    "simulate": ("lockstep.commands.simulate", "The simulated fleet alone, onto a broker."),
    "doctor": ("lockstep.commands.doctor", "What this machine offers, what is missing, and how to get it."),
}

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""A disk that takes no more of what is written to it."""


class LazyGroup(Group):
    """A group that knows its commands' names and imports one only to run it or to show its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        try:
            command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        except ModuleNotFoundError as error:
            raise _lacking(cmd_name, error) from None
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:  # of what a command imports when it runs
            raise _lacking(ctx.invoked_subcommand or "", error) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _lacking(command: str, error: ModuleNotFoundError) -> Exception:
    """One line with the extra that brings what is missing; the error itself where no extra does."""
    module = (error.name or "").split(".")[0]
    if module not in EXTRAS:
        return error
    return not_installed(command, lacking_for_whole() if command in WHOLE else [module])


@click.group(cls=LazyGroup, epilog="Start with `lockstep demo --once`; each command has --help with an example.")
@click.version_option(package_name="gpu-lockstep", prog_name="lockstep")
@click.option("--config", metavar="FILE", envvar="LOCKSTEP_CONFIG", help="Settings in TOML  [LOCKSTEP_CONFIG]")
def group(config: str | None) -> None:
    """Lockstep finds the GPU, link, node or rack that is out of step, and says why.

    Each setting is an option. Where --some-name is not given, the variable LOCKSTEP_SOME_NAME holds; where that is
    not set either, some_name in the --config file.
    """
    if config:
        for variable, value in from_file(config).items():
            os.environ.setdefault(variable, value)


def main() -> None:
    """Run the command line: exit status 0 done, 1 a condition asked for, 2 unusable input with one line why."""
    if sys.stderr is None:  # closed by whoever started this: the next file must not become it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        warn_of_unknown(os.environ, lambda line: click.echo(f"lockstep: {line}", err=True))
        # click 8.2 and later return the status of `Exit` here, older ones raise it.
        status = group.main(prog_name="lockstep", standalone_mode=False)
        if isinstance(status, int) and status:
            sys.exit(status)
        click.echo(nl=False)  # what is held back is written while its errors can be told
    except UserError as error:
        click.echo(f"lockstep: {in_one_line(str(error))}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "lockstep"
        click.echo(f"lockstep: {in_one_line(plainly(error))}; see `{path} --help`", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        with contextlib.suppress(OSError):  # the engine's process may open no device
            # What is still held back goes nowhere, or Python complains of it at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        where = f" {error.filename}" if error.filename else ""
        click.echo(f"lockstep: cannot write{where}: {error.strerror}", err=True)
        sys.exit(2)
