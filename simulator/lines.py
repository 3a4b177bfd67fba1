"""A file that grows, in memory: what collectors read lines from."""


class Lines:
    """Fills the collectors' line source: everything pushed is read once, in order."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, bytes]] = []

    def push(self, name: str, line: bytes) -> None:
        """Append `line` (without its end) to the file called `name`."""
        self._waiting.append((name, line))

    def read(self) -> list[tuple[str, bytes]]:
        """What was pushed since the last call, as (file name, line)."""
        waiting, self._waiting = self._waiting, []
        return waiting
