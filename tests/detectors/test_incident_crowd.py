"""Thousands of verdicts of one fault: one incident, few words, small state, and its members by name."""

from detectors.incident.book import MOST_HELD, MOST_NAMED, RECOVER_MS, IncidentBook
from schemas import Finding, Incident
from schemas.finding import Evidence, Subject
from schemas.identity import episode_id

T0 = 1_790_000_000_000
RACK = Subject(scope="rack", rack="r01")


def verdict(number: int, ts_ms: int, state: str = "open", revision: int = 0) -> Finding:
    subject = Subject(scope="gpu", node=f"r01-t{number // 4 % 18:02}", gpu=f"GPU-{number % 72}")
    return said(f"node.thermal{number}", subject, "hardware", "thermal_throttle", ts_ms, state, revision)


def said(
    detector: str, subject: Subject, kind: str, cause: str, ts_ms: int, state: str = "open", revision: int = 0
) -> Finding:
    return Finding(
        cluster="eos", ts_ms=ts_ms, id=episode_id(detector, kind, subject, T0), revision=revision, detector=detector,
        state=state, kind=kind, cause=cause, subject=subject, onset_ms=T0, confidence=0.9,
        evidence=(Evidence(text=f"{subject.label()} is hot"),), summary=f"{subject.label()} is hot",
    )  # fmt: skip


def crowd(book: IncidentBook, count: int) -> list[Incident]:
    told = book.apply(said("rack.flow", RACK, "cooling", "coolant_flow", T0))
    for number in range(count):
        told += book.apply(verdict(number, T0 + 1000 + number))
    return told


def test_ten_thousand_verdicts_of_one_fault_are_one_incident_that_says_little() -> None:
    book = IncidentBook("eos")
    told = crowd(book, 10_000)
    told += book.advance(T0 + 20_000)
    assert len({incident.id for incident in told}) == 1
    assert len(told) < 100
    assert (told[-1].scope, told[-1].cause, told[-1].culprits) == ("rack", "coolant_flow", (RACK,))
    assert len(told[-1].findings) == MOST_NAMED
    assert told[-1].members == tuple(f"r01-t{tray:02} (4 GPUs)" for tray in range(18))
    assert max(len(piece) for piece in book.state().values()) < 512 * 1024


def test_a_crowd_ends_when_all_its_verdicts_ended_and_survives_a_restart() -> None:
    book = IncidentBook("eos")
    crowd(book, MOST_HELD + 50)
    reborn = IncidentBook("eos")
    reborn.restore(book.state())
    later = T0 + 10_000
    reborn.apply(said("rack.flow", RACK, "cooling", "coolant_flow", later, "close", 1))
    for number in range(MOST_HELD + 49):
        reborn.apply(verdict(number, later + number, "close", 1))
    told = reborn.advance(later + 2 * RECOVER_MS)
    assert [i.state for i in reborn.open()] == ["confirmed"], "one verdict is still open"
    reborn.apply(verdict(MOST_HELD + 49, later + 2 * RECOVER_MS + 1, "close", 1))
    told += reborn.advance(later + 3 * RECOVER_MS)
    told += reborn.advance(later + 5 * RECOVER_MS)
    assert told[-1].change == "resolve"
    assert reborn.open() == ()
    assert reborn.apply(verdict(3, later + 5 * RECOVER_MS, "close", 1)) == [], "a late repeat opens nothing"


def test_verdicts_that_are_over_make_room() -> None:
    book = IncidentBook("eos")
    crowd(book, 10)
    for number in range(10, 2000):
        book.apply(verdict(number, T0 + 10_000 + 2 * number))
        book.apply(verdict(number, T0 + 10_001 + 2 * number, "close", 1))
    (piece,) = (piece for id_, piece in book.state().items() if id_)
    assert len(piece) < 256 * 1024
