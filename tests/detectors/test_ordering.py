"""Ticks come out once, sorted, and the same however the nodes' records interleave."""

from hypothesis import given
from hypothesis import strategies as st

from detectors.ordering import JOINING_MS, RETIRE_MS, TickOrder
from detectors.watermark import Watermark

END = 10**13


def test_holds_a_tick_until_all_known_nodes_have_passed() -> None:
    order: TickOrder[str] = TickOrder(["a", "b"])
    order.add(1000, "b", 1, 1, "b1")
    assert order.release(None) == []
    order.add(1000, "a", 1, 7, "a7")
    assert order.release(None) == [(1000, ["a7", "b1"])]


def test_the_watermark_releases_what_a_missing_node_holds_up() -> None:
    order: TickOrder[str] = TickOrder(["a", "b"])
    order.add(1000, "a", 1, 1, "a1")
    order.add(2000, "a", 1, 2, "a2")
    assert order.release(999) == []
    assert order.release(1000) == [(1000, ["a1"])]
    assert len(order) == 1


def test_while_nodes_are_discovered_only_the_watermark_releases() -> None:
    order: TickOrder[str] = TickOrder()
    for tick in range(0, JOINING_MS, 1000):
        order.add(tick, "a", 1, tick, "")
        assert order.release(None) == []
    order.add(JOINING_MS, "a", 1, JOINING_MS, "")
    assert len(order.release(None)) == JOINING_MS // 1000 + 1


def test_lanes_of_a_node_are_waited_for_alone() -> None:
    order: TickOrder[str] = TickOrder(["a"], lane="features")
    order.add(1000, "a", 1, 1, "steps", lane="steps")
    assert order.release(None) == []
    order.add(1000, "a", 1, 9, "features", lane="features")
    assert order.release(None) == [(1000, ["steps", "features"])]


def test_a_lane_that_stopped_is_not_waited_for_for_ever() -> None:
    order: TickOrder[str] = TickOrder(["a", "b"])
    for node in "ab":
        order.add(1000, node, 1, 1, node)
    order.add(1000 + RETIRE_MS + 1000, "a", 1, 2, "a")
    order.release(END)
    order.add(200_000, "a", 1, 3, "a3")
    assert order.release(None) == [(200_000, ["a3"])]


def test_a_named_node_that_never_speaks_is_not_waited_for_for_ever() -> None:
    order: TickOrder[int] = TickOrder(["a", "never"])
    order.add(1000, "a", 1, 1, 1)
    order.add(1000 + RETIRE_MS + 2000, "a", 1, 2, 2)
    assert len(order.release(END)) == 2
    order.add(200_000, "a", 1, 3, 3)
    assert order.release(None) == [(200_000, [3])]


def test_duplicates_and_late_records_are_named_and_not_kept() -> None:
    order: TickOrder[str] = TickOrder(["a"])
    assert order.add(1000, "a", 1, 1, "x") == "held"
    assert order.add(1000, "a", 1, 1, "again") == "duplicate"
    assert order.release(None) == [(1000, ["x"])]
    assert order.add(1000, "a", 1, 1, "again") == "late"
    assert order.add(500, "b", 1, 1, "late") == "late"
    assert len(order) == 0
    assert TickOrder[str](released_ms=1000).add(1000, "a", 1, 1, "replayed") == "late"


def test_memory_is_bounded_by_handing_out_the_oldest_tick() -> None:
    order: TickOrder[int] = TickOrder(["a", "never"], capacity=10)
    out = []
    for i in range(100):
        order.add(i * 100, "a", 1, i, i)
        out += order.release(None)
        assert len(order) <= 10
    assert [tick.tick_ms for tick in out] == [i * 100 for i in range(90)]


Stream = list[tuple[int, str, int]]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[str], list[Stream], Stream]:
    """Per node an ordered stream of (tick, node, seq), and one interleaving of them all."""
    nodes = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True))
    ours = [
        [(tick * 1000, node, seq) for seq, tick in enumerate(sorted(draw(st.sets(st.integers(0, 12)))))]
        for node in nodes
    ]
    turns = draw(st.permutations([i for i, stream in enumerate(ours) for _ in stream]))
    queues = [iter(stream) for stream in ours]
    return nodes, ours, [next(queues[turn]) for turn in turns]


@given(streams(), st.data())
def test_any_interleaving_gives_the_same_output(
    case: tuple[list[str], list[Stream], Stream], data: st.DataObject
) -> None:
    nodes, ours, mixed = case
    order: TickOrder[tuple[int, str, int]] = TickOrder(nodes)
    out = []
    for record in mixed:
        tick, node, seq = record
        assert order.add(tick, node, 1, seq, record) == "held"
        if data.draw(st.booleans()):
            assert order.add(tick, node, 1, seq, record) in ("duplicate", "late") or record not in out
        out += [item for released in order.release(None) for item in released.items]
    out += [item for released in order.release(END) for item in released.items]
    assert out == sorted(record for stream in ours for record in stream)
    assert len(order) == 0


@given(st.integers(2, 6), st.lists(st.integers(0, 1500), min_size=40, max_size=40), st.randoms(use_true_random=False))
def test_delays_within_the_grace_change_nothing(nodes: int, delays: list[int], random: object) -> None:
    """With the real watermark and nodes discovered on the way: records up to 1.5 s late come out in order, complete."""
    records = [(tick * 1000, f"n{node}", tick) for tick in range(20) for node in range(nodes)]
    arrivals = sorted(range(len(records)), key=lambda i: (records[i][0] + delays[i % 40], i))
    seen: dict[str, int] = {}
    order: TickOrder[tuple[int, str, int]] = TickOrder()
    watermark = Watermark()
    out = []
    for i in arrivals:
        tick, node, seq = records[i]
        if seq != seen.get(node, -1) + 1:
            return  # a node's own records never overtake each other
        seen[node] = seq
        watermark.observe(node, tick)
        assert order.add(tick, node, 1, seq, records[i]) == "held"
        out += [item for released in order.release(watermark.value_ms) for item in released.items]
    out += [item for released in order.release(END) for item in released.items]
    assert out == records
