"""The producer's buffer: whatever comes back, each topic's messages go on in order, and every one has one end."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.kafka.buffer import IN_FLIGHT, IN_FLIGHT_BYTES, Buffer

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("take"), st.just("")),
        st.tuples(st.just("land"), st.integers(0, 5)),
        st.tuples(st.just("back"), st.integers(0, 5)),
        st.tuples(st.just("put off"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("resume"), st.sampled_from(["a", "b"])),
    ),
    max_size=200,
)


@given(STEPS)
def test_every_message_lands_or_is_dropped_once_and_in_order(steps: list[tuple[str, str | int]]) -> None:
    buffer = Buffer(bound=8, bound_bytes=1_000_000)
    added: list[int] = []
    ended: list[int] = []
    under_way = []
    for now_s, (what, which) in enumerate(steps):
        if what == "add":
            ended += [message.number for message in buffer.add(str(which), b"", b"value", None)]
            added.append(buffer.newest)
        elif what == "take":
            message = buffer.take(now_s)
            if message is not None:
                earlier = [other.number for other in under_way if other.topic == message.topic]
                assert all(number < message.number for number in earlier)
                under_way.append(message)
        elif what == "put off":
            buffer.put_off(str(which), now_s + 10)
        elif what == "resume":
            buffer.resume(str(which))
        elif under_way:
            message = under_way.pop(int(which) % len(under_way))
            if what == "land":
                assert buffer.landed(message)
                ended.append(message.number)
            else:
                buffer.back(message)
        assert buffer.under_way == len(under_way)
        assert len(buffer) == len(added) - len(ended)
        assert buffer.oldest == min(set(added) - set(ended), default=buffer.newest + 1)
    left = [message.number for message in buffer.give_up()]
    assert left == sorted(left)
    assert sorted(ended + left) == added
    assert len(buffer) == 0


def test_no_more_is_under_way_than_the_limits_allow() -> None:
    small, large = Buffer(10_000, 1 << 30), Buffer(10_000, 1 << 30)
    for _ in range(2 * IN_FLIGHT):
        small.add("t", b"", b"", None)
        large.add("t", b"", bytes(1 << 20), None)
        while small.take(0) or large.take(0):
            pass
    assert small.under_way == IN_FLIGHT
    assert large.under_way == IN_FLIGHT_BYTES >> 20


def test_a_message_that_was_given_up_does_not_come_back() -> None:
    buffer = Buffer(10, 1000)
    buffer.add("t", b"", b"", None)
    message = buffer.take(0)
    assert message is not None
    assert buffer.give_up() == [message]
    buffer.back(message)
    assert not buffer.landed(message)
    assert len(buffer) == 0
