"""Frames read by what changed are the frames that were sent, whatever came before."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import NodeFrame, RackFrame
from schemas.codec import WireError, decode, encode
from schemas.examples import EXAMPLES
from schemas.frame import Gpu
from schemas.frames import NODES, FrameDecoder
from schemas.matrix import Matrix

NAMES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)


@st.composite
def frames(draw: st.DrawFn) -> NodeFrame:
    def matrix() -> Matrix:
        rows, columns = draw(NAMES), draw(NAMES)
        numbers = draw(st.lists(st.floats(width=32, allow_nan=False), min_size=9, max_size=9))
        return Matrix.of(rows, columns, [numbers[3 * i : 3 * i + len(columns)] for i in range(len(rows))])

    return NodeFrame(
        cluster="c", ts_ms=draw(st.integers(0, 9)), node=draw(st.sampled_from(["n1", "n2"])), run_id=1, seq=1,
        gpus=tuple(Gpu(uuid=name, rank=draw(st.none() | st.integers(0, 3))) for name in draw(NAMES)),
        sections={name: matrix() for name in draw(st.lists(st.sampled_from(["gpu", "host"]), unique=True))},
        missing=draw(st.dictionaries(st.sampled_from(["lost"]), st.integers(0, 9))),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(frames(), max_size=8))
def test_one_after_the_other_they_are_what_was_sent(sent: list[NodeFrame]) -> None:
    decoder = FrameDecoder(NodeFrame)
    assert [decoder.decode(encode(frame)) for frame in sent] == sent


@pytest.mark.parametrize("example", [e for e in EXAMPLES if isinstance(e, NodeFrame | RackFrame)])
def test_what_stays_the_same_is_the_same_object(example: NodeFrame | RackFrame) -> None:
    decoder: FrameDecoder[Any] = FrameDecoder(type(example))
    first, second = decoder.decode(encode(example)), decoder.decode(encode(example))
    assert first == second == example
    for name, matrix in first.sections.items():
        assert second.sections[name].rows is matrix.rows
        assert second.sections[name].columns is matrix.columns
    if isinstance(example, NodeFrame):
        assert second.gpus is first.gpus


def test_fields_that_are_not_there_have_their_defaults() -> None:
    bare = NodeFrame(cluster="c", ts_ms=1, node="n", run_id=1, seq=1)
    plain = msgspec.msgpack.decode(encode(bare))
    for name in ("gpus", "sections", "missing", "rack", "tray", "v"):
        del plain[name]
    assert decode(msgspec.msgpack.encode(plain | {"of a newer agent": 7})) == bare


def changed(**changes: Any) -> bytes:
    good = NodeFrame(cluster="c", ts_ms=1, node="n", run_id=1, seq=1, sections={"gpu": Matrix.of(["a"], ["x"], [[1]])})
    decode(encode(good))
    return msgspec.msgpack.encode(msgspec.msgpack.decode(encode(good)) | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"sections": {"gpu": [["a"], ["x"], b"123"]}},
        {"sections": {"gpu": [["a"], ["x"], b"12345678"]}},
        {"sections": {"gpu": [["a", "a"], ["x"], b"12345678"]}},
        {"sections": {"gpu": [["a"], ["x", "x"], b"12345678"]}},
        {"sections": {"gpu": [["a"], [7], b"1234"]}},
        {"sections": {"gpu": [["a"]]}},
        {"sections": 7},
        {"gpus": [{"uuid": ""}]},
        {"gpus": None},
        {"seq": -1},
        {"node": ""},
        {"missing": {"lost": "many"}},
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_whole_class(changes: dict[str, Any]) -> None:
    payload = changed(**changes)
    with pytest.raises(msgspec.ValidationError) as expected:
        msgspec.msgpack.Decoder(NodeFrame).decode(payload)
    with pytest.raises(WireError) as caught:
        decode(payload, "node-frames")
    assert caught.value.reason == "invalid_field"
    assert caught.value.detail == f"node_frame: {expected.value}"


def test_any_number_of_nodes_is_read_and_memory_is_bounded() -> None:
    decoder = FrameDecoder(NodeFrame)
    for n in range(8 * NODES + 10):
        matrix = Matrix.of([f"g{n}"], ["x"], [[n]])
        frame = NodeFrame(cluster="c", ts_ms=1, node=f"n{n}", run_id=1, seq=1, sections={"gpu": matrix})
        if n % 1000 < 2:
            assert decoder.decode(encode(frame)) == frame
        else:
            decoder.decode(encode(frame))
    assert len(decoder._names) <= 8 * NODES
