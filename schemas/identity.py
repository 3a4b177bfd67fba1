"""Deterministic ids: the same fault gets the same id, however often a process dies or a topic is replayed."""

from hashlib import blake2b

from schemas.finding import Subject


def episode_id(detector: str, kind: str, subject: Subject, onset_ms: int) -> str:
    """The id of one episode of one verdict. `onset_ms` must be the persisted start, not a recomputed one.

    >>> episode_id("arrival", "straggler", Subject(scope="rank", job="j", rank=5), 0)[:2]
    'f-'
    """
    parts = (
        detector,
        kind,
        subject.scope,
        subject.job,
        subject.rank,
        subject.node,
        subject.gpu,
        subject.link,
    )
    return "f-" + digest(*parts, subject.rack, subject.group, onset_ms)


def incident_id(cluster: str, finding_id: str) -> str:
    """The id of the incident that the finding opened."""
    return "i-" + digest(cluster, finding_id)


def digest(*parts: str | int | None) -> str:
    """16 hex digits of a hash over `parts`, unambiguous in their boundaries."""
    body = "\x1f".join("" if part is None else str(part) for part in parts)
    return blake2b(body.encode(), digest_size=8).hexdigest()
