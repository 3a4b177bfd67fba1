"""Groups of commands that say what was probably meant."""

from difflib import get_close_matches

import click

LONGEST = 1000
"""Letters of a message; what was given may be longer than any terminal."""


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


def in_one_line(text: str) -> str:
    """`text` as one line that moves no cursor, whatever a person, a file or a server has put into it.

    >>> in_one_line("--node='a\\nb'"), len(in_one_line("x" * 5000))
    ("--node='a\\\\nb'", 1000)
    """
    line = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
    if len(line) <= LONGEST:
        return line
    # What to do about it stands at the end.
    return f"{line[: LONGEST - 305]} ... {line[-300:]}"
