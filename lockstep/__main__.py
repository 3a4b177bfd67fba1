"""`lockstep`, and `python -m lockstep`."""

import signal


def main() -> None:
    """Run the command line. Until it is loaded, Ctrl-C ends this process as it ends any other, with nothing said."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where a shell has it ignored
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lockstep.cli import main as run

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
