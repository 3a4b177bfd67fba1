"""What an alert says: a title for a telephone, and no secrets."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from alerts.content import TEXT_LIMIT, TITLE_LIMIT, content, title
from alerts.redact import redact
from schemas import Incident
from schemas.causes import CAUSES
from schemas.examples import EXAMPLES
from schemas.finding import Subject

INCIDENT = next(e for e in EXAMPLES if isinstance(e, Incident))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "GPU degraded: rank 7 on r01-t02; 30 % slower, 511 ranks wait; since 22:13 UTC"),
        (
            {"kind": "hang", "cause": "not_entered"},
            "Not entered: rank 7 on r01-t02; job stands still, 511 ranks wait; since 22:13 UTC",
        ),
        (
            {
                "cause": "coolant_flow", "kind": "cooling", "culprits": (Subject(scope="rack", rack="r01"),),
                "slowdown": None, "victims": 0, "members": ("r01-t01 (4 GPUs)", "r01-t02 (4 GPUs)"),
            },
            "Coolant flow: rack r01 with 2 nodes; a risk, no job waits yet; since 22:13 UTC",
        ),
        (
            {"cause": "unknown", "culprits": ()},
            "Straggler, cause unknown: job slurm:eos/71/0; 30 % slower, 511 ranks wait; since 22:13 UTC",
        ),
    ],
)  # fmt: skip
def test_a_title_says_what_where_impact_and_since(changes: dict[str, object], expected: str) -> None:
    assert title(replace(INCIDENT, **changes)) == expected


@given(
    cause=st.sampled_from(list(CAUSES)),
    node=st.text(max_size=256),
    victims=st.integers(0, 10**9),
    slowdown=st.none() | st.floats(1, 1e6),
    count=st.integers(0, 5),
)
def test_a_title_always_fits_and_always_says_since_when(
    cause: str, node: str, victims: int, slowdown: float | None, count: int
) -> None:
    culprits = tuple(Subject(scope="node", node=f"{node}{n}") for n in range(count))
    said = title(replace(INCIDENT, cause=cause, culprits=culprits, victims=victims, slowdown=slowdown))
    assert len(said) <= TITLE_LIMIT
    assert said.endswith("since 22:13 UTC")


def test_a_page_links_to_its_runbook_or_names_it() -> None:
    assert content(INCIDENT).runbook == "docs/runbooks/gpu_degraded.md"
    assert content(INCIDENT, "https://wiki/{cause}").link == "https://wiki/gpu_degraded"


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("WANDB_API_KEY=0123456789abcdef", "0123456789abcdef"),
        ("--token=s3cr3t-value --other", "s3cr3t-value"),
        ('{"password": "hunter2"}', "hunter2"),
        ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
        ("s3://x AKIAABCDEFGHIJKLMNOP y", "AKIAABCDEFGHIJKLMNOP"),
        ("git clone https://me:ghp_tokentoken@host/x", "ghp_tokentoken"),
        ("hf_abcdefghijklmnopqrstuvwxyz", "hf_abcdefghij"),
        ("wget --password hunter2 x", "hunter2"),
        ("PASSWORD='two words' x", "words"),
        ("psql postgres://me:p@ss:w@host/x", "ss:w"),
        ("Authorization: Token abcdefgh12345", "abcdefgh12345"),
        ("Cookie: session=abcdef; more=1", "abcdef"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
        ("https://hooks.slack.com/services/T0/B0/abcdefgh", "abcdefgh"),
        ("https://store/x?sig=abcdef", "abcdef"),
        ("github_pat_11ABCDEFG0abcdefghijklmnop", "ABCDEFG"),
        ("key AIzaSyA-abcdefghijklmnopqrstuvwxyz01234", "AIza"),
    ],
)
def test_secrets_are_taken_out(text: str, gone: str) -> None:
    assert gone not in redact(text)
    assert "[secret]" in redact(text)


@pytest.mark.parametrize(
    "piece", ["-", "a:", "--", "a-", "-a ", "--token ", "token", "cookie: ", "://a:", "=", "&sig=", "'", "eyJ.", "@"]
)
def test_hostile_text_costs_no_time(piece: str) -> None:
    begin = time.perf_counter()
    redact(f"--{piece * (4 * TEXT_LIMIT // len(piece))}")
    assert time.perf_counter() - begin < 1.0


@pytest.mark.parametrize(
    "text",
    [
        "power 512 W against 690 W of its own past",
        "XID 79 on r01-t02: GPU has fallen off the bus",
        "tokens per step: 4096",
        "rank 3 - password-less login, --max-tokens, a://b/c@d",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text) == text
