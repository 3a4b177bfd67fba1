"""One module a command, each with `command`."""
