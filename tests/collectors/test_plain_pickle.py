"""The reader of plain pickles: what it reads, what it refuses, and that nothing breaks it."""

import contextlib
import os
import pickle
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nccl.plain_pickle import MOST_DEPTH, Refused, loads

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=8), inner, max_size=6),
    max_leaves=40,
)


@given(plain, st.integers(2, 5))
def test_plain_data_comes_back_as_it_was(value: object, protocol: int) -> None:
    assert loads(pickle.dumps(value, protocol)) == value


def test_tuples_and_shared_objects_are_read() -> None:
    shared = ["Float"]
    assert loads(pickle.dumps({"group": ("0", "default_pg"), "a": shared, "b": shared}, 2)) == {
        "group": ["0", "default_pg"],
        "a": ["Float"],
        "b": ["Float"],
    }


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/lockstep-was-here",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_code_is_refused(protocol: int) -> None:
    with pytest.raises(Refused) as caught:
        loads(pickle.dumps({"version": "2.10", "entries": [_Evil()]}, protocol))
    assert caught.value.reason == "unsafe"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [{1, 2}, frozenset((1,)), range(3), complex(1, 2), bytearray(b"x"), pytest])
def test_objects_are_refused(value: object) -> None:
    try:
        data = pickle.dumps(value, 4)
    except TypeError:
        data = b"\x80\x02cos\nsystem\n."
    with pytest.raises(Refused):
        loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02]r" + struct.pack("<I", 2**31) + b".",
        b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
        b"\x80\x02\x8b" + struct.pack("<I", 2**31) + b"\x01.",
        b"\x80\x02" + b"(" * 1_000_000,
        b"\x80\x02X" + struct.pack("<I", 2**32 - 1) + b"x.",
        b"\x80\x02" + b")" + b"\x85" * 200_000 + b"K\x01\x86}q\x00.",
        b"\x80\x02})K\x01s.",
        b"\x80\x02h\x07.",
        b"\x80\x02e.",
        b"\x80\x09N.",
        b"",
        b"\x80",
    ],
)
def test_bombs_cost_nothing(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Refused):
            loads(data)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_depth_is_bounded() -> None:
    deep: list[object] = []
    for _ in range(MOST_DEPTH + 2):
        deep = [1, deep]
    with pytest.raises(Refused, match="nested deeper"):
        loads(pickle.dumps(deep, 2))


def test_size_is_bounded() -> None:
    with pytest.raises(Refused, match="at most 10"):
        loads(pickle.dumps("x" * 20), most_bytes=10)


@given(st.binary(max_size=200), plain, st.integers(0, 400))
def test_nothing_but_refusals(junk: bytes, value: object, cut: int) -> None:
    whole = pickle.dumps(value, 4)
    for data in (junk, b"\x80\x02" + junk, whole[:cut] + junk, whole[:cut]):
        with contextlib.suppress(Refused):
            loads(data)
