"""The watermark: one node can neither move it nor hold it up."""

from hypothesis import given
from hypothesis import strategies as st

from detectors.watermark import CLOCK_WRONG_MS, FORGET_MS, GRACE_MS, Watermark

NODES = [f"n{i}" for i in range(5)]
T0 = 1_700_000_000_000


def rounds(watermark: Watermark, nodes: list[str], seconds: range) -> None:
    for second in seconds:
        for node in nodes:
            watermark.observe(node, T0 + second * 1000)


def test_is_the_median_minus_the_grace() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(3))
    for lag, node in enumerate(NODES):
        watermark.observe(node, T0 + 10_000 - lag * 1000)
    assert watermark.value_ms == T0 + 8000 - GRACE_MS


def test_tells_nothing_before_the_third_record_of_a_node() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(2))
    assert watermark.value_ms is None
    watermark.observe("n0", T0 + 2000)
    assert watermark.value_ms is not None


def test_a_clock_that_jumps_ahead_is_wrong_and_moves_nothing() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(10))
    before = watermark.value_ms
    for i in range(50):
        assert watermark.observe("n0", T0 + 3_600_000 + i * 1000) == "clock_wrong"
    assert watermark.value_ms == before
    rounds(watermark, NODES[1:], range(10, 20))
    assert watermark.value_ms == T0 + 19_000 - GRACE_MS


def test_a_clock_that_jumps_less_than_the_limit_moves_nothing_either() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(10))
    before = watermark.value_ms
    watermark.observe("n0", T0 + 9000 + CLOCK_WRONG_MS)
    assert watermark.value_ms == before


def test_a_clock_that_is_behind_by_a_constant_is_wrong_after_ten_seconds() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(3))
    standings = []
    for second in range(3, 60):
        rounds(watermark, NODES, range(second, second + 1))
        standings.append(watermark.observe("slow", T0 + second * 1000 - 600_000))
    assert standings[:5] == ["late"] * 5
    assert standings[11:] == ["clock_wrong"] * len(standings[11:])


def test_a_spool_that_drains_is_late_and_never_wrong() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(3))
    tick = T0 - 600_000
    seen = set()
    for second in range(3, 400):
        rounds(watermark, NODES, range(second, second + 1))
        for _ in range(3):
            tick = min(tick + 1000, T0 + second * 1000)
            seen.add(watermark.observe("back", tick))
    assert seen == {"late", "in_step"}
    assert not watermark.nodes["back"].wrong


def test_a_clock_put_right_is_trusted_again() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(5))
    watermark.observe("n0", T0 + 3_600_000)
    rounds(watermark, NODES, range(5, 8))
    assert not watermark.nodes["n0"].wrong


def test_survivors_that_go_on_second_by_second_are_not_wrong() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(5))
    for second in range(5, 120):
        for node in NODES[:2]:
            assert watermark.observe(node, T0 + second * 1000) == "in_step"
    assert watermark.front_ms() == T0 + 119_000


def test_a_muted_node_does_not_hold_up_and_votes_again_when_heard() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(5))
    rounds(watermark, NODES[:2], range(5, 20))
    stuck = watermark.value_ms
    for node in NODES[2:]:
        watermark.mute(node)
    assert stuck == T0 + 4000 - GRACE_MS
    assert watermark.value_ms == T0 + 19_000 - GRACE_MS
    watermark.observe("n4", T0 + 20_000)
    assert not watermark.nodes["n4"].muted


def test_a_fleet_that_paused_goes_on() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(5))
    rounds(watermark, NODES, range(4000, 4003))
    assert watermark.value_ms == T0 + 4_002_000 - GRACE_MS
    assert not any(clock.wrong for clock in watermark.nodes.values())


def test_one_node_alone_is_its_own_median() -> None:
    watermark = Watermark()
    rounds(watermark, ["only"], range(4))
    assert watermark.value_ms == T0 + 3000 - GRACE_MS
    assert watermark.observe("only", T0 + 10_000_000) == "in_step"


def test_nodes_out_of_service_are_forgotten() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(3))
    watermark.observe("odd", T0 + 10 * FORGET_MS)
    later = 3 + FORGET_MS // 1000
    rounds(watermark, NODES[:3], range(later, later + 3))
    assert sorted(watermark.forget()) == ["n3", "n4", "odd"]
    assert sorted(watermark.nodes) == NODES[:3]


def test_round_trip() -> None:
    watermark = Watermark()
    rounds(watermark, NODES, range(5))
    watermark.observe("n0", T0 + 3_600_000)
    watermark.mute("n1")
    revived = Watermark()
    revived.restore(watermark.state())
    for one in (watermark, revived):
        rounds(one, NODES[2:], range(5, 9))
    assert revived.state() == watermark.state()
    assert len(watermark.state()) < 80 * len(NODES)


@given(
    st.lists(st.tuples(st.sampled_from(NODES[1:]), st.integers(0, 3000)), min_size=60, max_size=120),
    st.lists(st.integers(-10_000_000, 10_000_000), max_size=60),
)
def test_whatever_one_node_says_the_watermark_stays_between_the_others(
    steps: list[tuple[str, int]], lies: list[int]
) -> None:
    watermark = Watermark()
    newest = dict.fromkeys(NODES[1:], T0)
    rounds(watermark, NODES, range(1))
    last = None
    for i, (node, advance) in enumerate(steps):
        newest[node] = min(newest[node] + advance, min(newest.values()) + 5000)
        watermark.observe(node, newest[node])
        if i < len(lies):
            watermark.observe("n0", T0 + lies[i])
        value = watermark.value_ms
        if value is not None:
            assert min(newest.values()) <= value + GRACE_MS <= max(newest.values())
            assert last is None or value >= last
            last = value
