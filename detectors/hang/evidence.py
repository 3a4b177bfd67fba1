"""Where a job stands still: what dumps, RAS and logs all come to."""

from collections.abc import Iterable

import msgspec

from schemas.causes import Cause


class Hang(msgspec.Struct, frozen=True):
    """Where a job stands still. `ranks` are the culprits, each waited for and waiting for nobody; empty where that is
    not known, and then group, link or node are as much as is. `evidence` are whole sentences."""

    cause: Cause
    ranks: tuple[int, ...]
    group: str
    confidence: float
    runner_up: Cause | None
    victims: int
    onset_ms: int
    summary: str
    evidence: tuple[str, ...]
    node: str = ""
    link: str = ""


def names(ranks: Iterable[int]) -> str:
    """Ranks in words, at most eight of them.

    >>> names([3]), names([2, 1]), names(range(20))
    ('rank 3', 'ranks 1, 2', 'ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more')
    """
    listed = sorted(ranks)
    more = f" and {len(listed) - 8} more" if len(listed) > 8 else ""
    return f"rank{'s' if len(listed) != 1 else ''} {', '.join(map(str, listed[:8]))}{more}"
