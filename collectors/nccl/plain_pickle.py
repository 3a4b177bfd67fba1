"""Pickles that hold only plain data: an interpreter of the few opcodes that build it, and of nothing else.

Python's own unpickler imports and calls whatever a file names, and grows its memo to any index that a file names.
Here nothing is imported, nothing is called, and every bound is checked before memory is taken. Protocols 2 to 5, as
Python and PyTorch's C++ pickler write them. Opcodes: Lib/pickletools.py.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Any

MOST_BYTES = 128 << 20
"""A Flight Recorder dump of 2,000 operations with stack frames is about 4 MiB."""

MOST_ITEMS = 10_000_000
"""Opcodes read, and so objects built, of one pickle."""

MOST_DEPTH = 64
"""Open containers, one in the other: a dump has five."""

MOST_DIGITS = 64
"""Bytes of one integer."""


class Refused(ValueError):
    """The bytes are no pickle of plain data. `reason` is one word, the text one line."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


_U2, _U4, _I4, _U8, _F8 = Struct("<H"), Struct("<I"), Struct("<i"), Struct("<Q"), Struct(">d")


def loads(data: bytes, most_bytes: int = MOST_BYTES) -> Any:
    """The value in `data`: dicts, lists, strings, bytes, numbers, None; a tuple becomes a list.

    Raises Refused: unsafe (asks for code, a class or an object from elsewhere), truncated, broken, too_large.
    """
    if len(data) > most_bytes:
        raise Refused("too_large", f"a pickle of {len(data)} bytes; at most {most_bytes} are read")
    try:
        return _Machine(data).run()
    except error:
        raise Refused("truncated", f"the pickle ends in the middle, after {len(data)} bytes") from None
    except IndexError:
        raise Refused("broken", "the pickle takes from an empty stack") from None


class _Machine:
    """One pickle being read. `stack` holds the items since the last mark, `marks` the stacks below it."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: list[Any] = []

    def run(self) -> Any:
        """The loop. The opcodes that make up nine tenths of a dump are done here; the table does the others."""
        data, memo, steps, size = self.data, self.memo, STEPS, len(self.data)
        for _ in range(MOST_ITEMS):
            at = self.at
            if at >= size:
                raise Refused("truncated", f"the pickle ends in the middle, after {size} bytes")
            code = data[at]
            self.at = at + 1
            if code == 0x68 and at + 1 < size and data[at + 1] < len(memo):  # BINGET
                self.stack.append(memo[data[at + 1]])
                self.at = at + 2
            elif code == 0x71 and at + 1 < size and data[at + 1] == len(memo):  # BINPUT
                memo.append(self.stack[-1])
                self.at = at + 2
            elif code == 0x72 and int.from_bytes(data[at + 1 : at + 5], "little") == len(memo) and at + 5 < size:
                memo.append(self.stack[-1])  # LONG_BINPUT
                self.at = at + 5
            elif code == 0x58:  # BINUNICODE
                end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "little")
                if end > size:
                    raise Refused("truncated", f"the pickle ends in the middle, after {size} bytes")
                self.stack.append(data[at + 5 : end].decode("utf-8", "replace"))
                self.at = end
            elif code == 0x4B and at + 1 < size:  # BININT1
                self.stack.append(data[at + 1])
                self.at = at + 2
            elif code == STOP:
                if self.marks or len(self.stack) != 1:
                    raise Refused("broken", "the pickle stops with open containers")
                return self.stack[0]
            else:
                step = steps.get(code)
                if step is None:
                    raise _forbidden(code, at)
                step(self)
        raise Refused("too_large", f"more than {MOST_ITEMS} items in one pickle")

    def number(self, form: Struct) -> Any:
        value = form.unpack_from(self.data, self.at)[0]
        self.at += form.size
        return value

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise Refused("truncated", f"the pickle ends in the middle, after {len(self.data)} bytes")
        found = self.data[self.at : end]
        self.at = end
        return found

    def text(self, length: int) -> None:
        self.stack.append(self.take(length).decode("utf-8", "replace"))

    def integer(self, length: int) -> None:
        if length > MOST_DIGITS:
            raise Refused("too_large", f"an integer of {length} bytes")
        self.stack.append(int.from_bytes(self.take(length), "little", signed=True))

    def mark(self) -> None:
        if len(self.marks) >= MOST_DEPTH:
            raise Refused("too_large", f"containers nested deeper than {MOST_DEPTH}")
        self.marks.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def put(self, index: int | None = None) -> None:
        """Memo indices come in order; any other is a made-up one, which would cost memory."""
        if index is None or index == len(self.memo):
            self.memo.append(self.stack[-1])
        elif index < len(self.memo):
            self.memo[index] = self.stack[-1]
        else:
            raise Refused("broken", f"memo index {index} out of order")

    def get(self, index: int) -> None:
        if index >= len(self.memo):
            raise Refused("broken", f"memo index {index} was never set")
        self.stack.append(self.memo[index])

    def extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise Refused("broken", "items for something that is no list")
        target.extend(items)

    def update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise Refused("broken", "items for something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int):
                raise Refused("broken", f"a {type(key).__name__} as a key")
            target[key] = value

    def last(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise IndexError
        items = self.stack[-count:]
        del self.stack[-count:]
        return items


def _forbidden(code: int, at: int) -> Refused:
    what = CALLS.get(code)
    if what is None:
        return Refused("broken", f"byte {code:#04x} at {at} is no opcode of a plain pickle")
    return Refused("unsafe", f"the pickle asks for {what} (byte {at}); only plain data is read")


def _protocol(machine: _Machine) -> None:
    version = machine.take(1)[0]
    if version > 5:
        raise Refused("broken", f"pickle protocol {version} is not known")


def _skip(machine: _Machine) -> None:
    """A frame's length: how the bytes are grouped, nothing else."""
    machine.number(_U8)


def _dict_of(machine: _Machine) -> None:
    items = machine.since_mark()
    machine.stack.append({})
    machine.update(items)


def _drop(machine: _Machine) -> None:
    machine.stack.pop()


CALLS = {
    ord("c"): "an import",
    0x93: "an import",
    ord("R"): "a function call",
    ord("b"): "an object's state",
    ord("i"): "an object",
    ord("o"): "an object",
    0x81: "an object",
    0x92: "an object",
    ord("P"): "an object from elsewhere",
    ord("Q"): "an object from elsewhere",
    0x82: "a registered class",
    0x83: "a registered class",
    0x84: "a registered class",
    0x97: "an outside buffer",
    0x98: "an outside buffer",
}
"""Opcodes that build anything but plain data, in words."""

STOP = ord(".")

STEPS: dict[int, Callable[[_Machine], None]] = {
    0x80: _protocol,
    0x95: _skip,
    ord("("): _Machine.mark,
    ord("}"): lambda m: m.stack.append({}),
    ord("]"): lambda m: m.stack.append([]),
    ord(")"): lambda m: m.stack.append([]),
    ord("N"): lambda m: m.stack.append(None),
    0x88: lambda m: m.stack.append(True),
    0x89: lambda m: m.stack.append(False),
    ord("K"): lambda m: m.stack.append(m.take(1)[0]),
    ord("M"): lambda m: m.stack.append(m.number(_U2)),
    ord("J"): lambda m: m.stack.append(m.number(_I4)),
    ord("G"): lambda m: m.stack.append(m.number(_F8)),
    0x8A: lambda m: m.integer(m.take(1)[0]),
    0x8B: lambda m: m.integer(m.number(_U4)),
    ord("X"): lambda m: m.text(m.number(_U4)),
    0x8C: lambda m: m.text(m.take(1)[0]),
    0x8D: lambda m: m.text(m.number(_U8)),
    ord("T"): lambda m: m.text(m.number(_U4)),
    ord("U"): lambda m: m.text(m.take(1)[0]),
    ord("B"): lambda m: m.stack.append(m.take(m.number(_U4))),
    ord("C"): lambda m: m.stack.append(m.take(m.take(1)[0])),
    0x8E: lambda m: m.stack.append(m.take(m.number(_U8))),
    ord("q"): lambda m: m.put(m.take(1)[0]),
    ord("r"): lambda m: m.put(m.number(_U4)),
    0x94: _Machine.put,
    ord("h"): lambda m: m.get(m.take(1)[0]),
    ord("j"): lambda m: m.get(m.number(_U4)),
    ord("a"): lambda m: m.extend(m.last(1)),
    ord("e"): lambda m: m.extend(m.since_mark()),
    ord("s"): lambda m: m.update(m.last(2)),
    ord("u"): lambda m: m.update(m.since_mark()),
    ord("t"): lambda m: m.stack.append(m.since_mark()),
    ord("l"): lambda m: m.stack.append(m.since_mark()),
    ord("d"): _dict_of,
    0x85: lambda m: m.stack.append(m.last(1)),
    0x86: lambda m: m.stack.append(m.last(2)),
    0x87: lambda m: m.stack.append(m.last(3)),
    ord("0"): _drop,
}
"""What is understood: an opcode and what it does."""
