"""Groups of commands that say what was probably meant."""

from difflib import get_close_matches

import click


class Group(click.Group):
    """A group that names the command nearest to one it has not."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            if near:
                error.message = f"{error.message.rstrip('.')}, did you mean {near[0]}?"
            raise


def plainly(error: click.ClickException) -> str:
    """What click found wrong, as the beginning of a sentence.

    >>> plainly(click.NoSuchOption("--tiks", possibilities=["--ticks"]))
    'No such option: --tiks, did you mean --ticks?'
    """
    if isinstance(error, click.NoSuchOption):
        near = get_close_matches(error.option_name, error.possibilities or (), 1)
        return f"{error.message.rstrip('.')}, did you mean {near[0]}?" if near else error.message.rstrip(".")
    return error.format_message().rstrip(".")
