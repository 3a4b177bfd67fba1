"""The life of a verdict: hysteresis, ids that survive restarts, one opening per episode."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.episode import CLOSED_KEPT_MS, GAP_MS, Episode, Episodes, Persistence, Rule, Verdict
from schemas.finding import Finding, Subject

GPU = Subject(scope="gpu", node="n1", gpu="GPU-1")
SOON = Rule("thermal", "degradation", Persistence(k=3, n=5, clear=4))
AT_ONCE = Rule("xid", "hardware")


def run(episodes: Episodes, rule: Rule, pattern: str, start_ms: int = 0, subject: Subject = GPU) -> list[Finding]:
    """Feed one observation a second: x active, . inactive, ? not judged."""
    said = []
    for i, mark in enumerate(pattern):
        active = {"x": True, ".": False, "?": None}[mark]
        said += episodes.observe(rule, subject, active, start_ms + i * 1000, Verdict)
    return said


def states(findings: list[Finding]) -> list[str]:
    return [finding.state for finding in findings]


def test_opens_at_k_of_n_with_the_oldest_hit_as_onset() -> None:
    said = run(Episodes("c"), SOON, "..x.x.x")
    assert states(said) == ["open"]
    assert (said[0].onset_ms, said[0].ts_ms, said[0].revision) == (2000, 6000, 0)


def test_hits_that_left_the_window_do_not_count_nor_date_the_onset() -> None:
    assert run(Episodes("c"), SOON, "x...x...x...x") == []
    assert run(Episodes("c"), SOON, "x....x.xx")[0].onset_ms == 5000


def test_closes_only_after_clear_inactive_observations_in_a_row() -> None:
    said = run(Episodes("c"), SOON, "xxx...x...x....")
    assert states(said) == ["open", "heartbeat", "close"]
    assert said[-1].ts_ms == 14_000


def test_not_judged_neither_opens_nor_closes() -> None:
    assert run(Episodes("c"), SOON, "xx" + "?" * 20) == []
    assert states(run(Episodes("c"), SOON, "xxx" + "?" * 12)) == ["open", "heartbeat"]


def test_heartbeat_at_most_every_ten_seconds_the_first_after_five() -> None:
    said = run(Episodes("c"), AT_ONCE, "x" * 35)
    assert [(f.state, f.ts_ms) for f in said] == [("open", 0)] + [("heartbeat", t) for t in (5_000, 15_000, 25_000)]
    assert [f.revision for f in said] == [0, 1, 2, 3]


def test_another_cause_or_more_victims_is_a_change_and_a_new_score_is_not() -> None:
    episodes = Episodes("c")
    words = [
        Verdict(score=1.0, victims=3),
        Verdict(score=2.0, victims=3),
        Verdict(score=2.0, victims=7),
        Verdict(cause="thermal_throttle", victims=2),
        Verdict(cause="thermal_throttle", victims=1),
    ]
    said = [f for i, word in enumerate(words) for f in episodes.observe(AT_ONCE, GPU, True, i, lambda w=word: w)]
    assert [(f.state, f.cause, f.victims) for f in said] == [
        ("open", "unknown", 3),
        ("change", "unknown", 7),
        ("change", "thermal_throttle", 2),
    ]


def test_a_less_sure_cause_waits_for_the_heartbeat() -> None:
    episodes = Episodes("c")
    sure, unsure = Verdict(cause="thermal_throttle", confidence=0.8), Verdict(confidence=0.3)
    said = [
        f for i in range(6) for f in episodes.observe(AT_ONCE, GPU, True, i * 1000, lambda i=i: unsure if i else sure)
    ]
    assert [(f.state, f.cause, f.ts_ms) for f in said] == [
        ("open", "thermal_throttle", 0),
        ("heartbeat", "unknown", 5_000),
    ]


def test_words_are_made_only_when_needed() -> None:
    episodes, made = Episodes("c"), []

    def say() -> Verdict:
        made.append(1)
        return Verdict()

    for i in range(2):
        episodes.observe(SOON, GPU, True, i * 1000, say)
    assert not made
    episodes.observe(SOON, GPU, True, 2000, say)
    assert len(made) == 1


def test_a_second_episode_has_another_id() -> None:
    said = run(Episodes("c"), AT_ONCE, "x.x.")
    assert states(said) == ["open", "close", "open", "close"]
    assert said[0].id == said[1].id != said[2].id == said[3].id


def test_an_onset_given_twice_does_not_reuse_the_closed_id() -> None:
    episodes = Episodes("c")
    first = episodes.observe(AT_ONCE, GPU, True, 1000, Verdict, onset_ms=500)
    episodes.observe(AT_ONCE, GPU, False, 2000)
    second = episodes.observe(AT_ONCE, GPU, True, 3000, Verdict, onset_ms=500)
    assert first[0].onset_ms == 500
    assert second[0].id != first[0].id


def test_rules_and_subjects_do_not_share_episodes() -> None:
    episodes = Episodes("c")
    other = msgspec.structs.replace(GPU, gpu="GPU-2")
    ids = {
        run(episodes, rule, "x", subject=subject)[0].id
        for rule in (AT_ONCE, Rule("fallen", "hardware"), Rule("xid", "degradation"))
        for subject in (GPU, other)
    }
    assert len(ids) == 6
    assert episodes.open(AT_ONCE) == [GPU, other]


def test_a_gap_starts_the_window_anew_so_an_old_state_opens_nothing() -> None:
    episodes = Episodes("c")
    run(episodes, SOON, "xx")
    revived = Episodes("c")
    revived.restore(pending=episodes.pending())
    assert run(revived, SOON, "x", start_ms=2 * GAP_MS) == []


def test_closing_a_subject_that_left() -> None:
    episodes = Episodes("c")
    run(episodes, SOON, "xxx")
    assert states(episodes.close(SOON, GPU, 9000)) == ["close"]
    assert episodes.close(SOON, GPU, 9000) == []


def test_memory_is_kept_only_for_subjects_in_trouble() -> None:
    episodes = Episodes("c")
    for i in range(500):
        subject = Subject(scope="rank", job="j", rank=i)
        run(episodes, AT_ONCE, "x.", start_ms=i * 1000, subject=subject)
        run(episodes, SOON, "x" + "." * 5, start_ms=i * 1000, subject=subject)
    assert episodes.pending() == ()
    assert len(episodes.decided()) <= CLOSED_KEPT_MS / 1000 + 2


def test_restoring_repeats_the_last_words_with_the_same_id_and_revision() -> None:
    episodes = Episodes("c")
    said = run(episodes, SOON, "xxx")
    revived = Episodes("c")
    assert revived.restore(decided=episodes.decided()) == said
    assert run(revived, SOON, "xxxx", start_ms=3000) == []
    assert revived.is_open(SOON, GPU)


@pytest.mark.parametrize("rule", [SOON, AT_ONCE])
def test_a_restored_copy_shares_nothing(rule: Rule) -> None:
    episodes = Episodes("c")
    run(episodes, rule, "xx")
    before = msgspec.msgpack.encode(episodes.decided() + episodes.pending())
    revived = Episodes("c")
    revived.restore(episodes.decided(), episodes.pending())
    run(revived, rule, "xxxxx", start_ms=2000)
    assert msgspec.msgpack.encode(episodes.decided() + episodes.pending()) == before


@given(
    st.lists(st.tuples(st.sampled_from("x.?"), st.sampled_from(["go on", "kill", "checkpoint"])), max_size=120),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(1, 5),
)
def test_lives_with_kills_are_well_formed(life: list[tuple[str, str]], k: int, more: int, clear: int) -> None:
    """Killed anywhere, with only the decisions left: every id opens once and its revisions rise without a gap."""
    rule = Rule("d", "degradation", Persistence(k, k + more, clear))
    episodes, said = Episodes("c"), []
    for i, (mark, fate) in enumerate(life):
        new = run(episodes, rule, mark, start_ms=i * 1000)
        said += new
        if fate != "go on":
            decided = msgspec.msgpack.decode(msgspec.msgpack.encode(episodes.decided()), type=tuple[Episode, ...])
            pending = episodes.pending() if fate == "checkpoint" else ()
            episodes = Episodes("c")
            again = episodes.restore(decided, pending)
            assert all(finding in said for finding in again)
            assert not new or new[-1] in again
    for identity in {finding.id for finding in said}:
        ours = [finding for finding in said if finding.id == identity]
        assert [f.revision for f in ours] == list(range(len(ours)))
        assert states(ours)[0] == "open"
        assert "open" not in states(ours)[1:]
        assert "close" not in states(ours)[:-1]
        assert len({f.onset_ms for f in ours}) == 1
    opens_and_closes = [f.state for f in said if f.state in ("open", "close")]
    assert opens_and_closes == ["open", "close"] * (len(opens_and_closes) // 2) + ["open"] * (len(opens_and_closes) % 2)


@given(st.text("x.?", max_size=80), st.integers(0, 80))
def test_a_full_round_trip_continues_identically(pattern: str, cut: int) -> None:
    whole = run(Episodes("c"), SOON, pattern)
    episodes = Episodes("c")
    first = run(episodes, SOON, pattern[:cut])
    revived = Episodes("c")
    revived.restore(episodes.decided(), episodes.pending())
    assert first + run(revived, SOON, pattern[cut:], start_ms=len(pattern[:cut]) * 1000) == whole
