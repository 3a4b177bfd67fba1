"""docs/wire.md, written from the record classes: `python -m schemas.page > docs/wire.md`."""

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from schemas import RECORDS
from schemas.causes import CAUSES
from schemas.codec import encode
from schemas.examples import EXAMPLES
from schemas.metrics import METRICS
from schemas.readable import readable
from schemas.record import Record
from schemas.topics import JOB_TOPICS, TOPICS


def wire_page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The wire"
    yield ""
    yield "Written from the record classes by `make wire`; a test fails when it is out of date."
    yield ""
    yield "Every message is one MessagePack map with the record's `type` and its schema version `v`. A reader ignores"
    yield "fields that it does not know and fills those that it misses with their defaults; a version that it does not"
    yield "know is refused (dead letter `future_version`). A matrix is `[rows, columns, little-endian float32 values]`."
    yield ""
    yield "## Topics"
    yield ""
    yield "| topic | key | kept | what | records |"
    yield "|---|---|---|---|---|"
    for topic in TOPICS.values():
        kept = f"{topic.retention_ms // 3_600_000} h" if topic.retention_ms else "newest of each key"
        types = ", ".join(f"`{_tag(cls)}`" for cls in RECORDS if cls.topic == topic.name)
        yield f"| {topic.name} | {topic.key} | {kept} | {topic.why} | {types} |"
    yield ""
    yield f"{', '.join(JOB_TOPICS)} share partition count and partitioner (murmur2 of the key)."
    yield ""
    yield "## Records"
    for cls in RECORDS:
        yield from _record(cls)
    yield ""
    yield "## Metrics"
    yield ""
    yield "| section | metric | kind | range | source | on |"
    yield "|---|---|---|---|---|---|"
    for m in METRICS:
        high = "" if m.high > 1e38 else f"{m.high:g}"
        yield f"| {m.section} | {m.name} | {m.kind} | {m.low:g} to {high or 'any'} | {m.source} | {m.on} |"
    yield ""
    yield "## Causes"
    yield ""
    yield "| cause | in words | whose |"
    yield "|---|---|---|"
    for cause, facts in CAUSES.items():
        yield f"| {cause} | {facts.words} | {facts.team} |"


def _record(cls: type[Record]) -> Iterator[str]:
    example = next(e for e in EXAMPLES if type(e) is cls)
    yield ""
    yield f"### {_tag(cls)}"
    yield ""
    yield f"Topic {cls.topic}, version {cls.version}. Identity of the example: `{json.dumps(list(example.identity))}`."
    yield ""
    yield " ".join((cls.__doc__ or "").split())
    yield ""
    yield from _fields(cls)
    for nested in _nested(cls):
        yield ""
        yield f"`{nested.__name__}`: " + " ".join((nested.__doc__ or "").split()).split(" >>>")[0]
        yield ""
        yield from _fields(nested)
    yield ""
    yield f"Example ({len(encode(example))} bytes):"
    yield ""
    yield "```json"
    yield json.dumps(readable(example), indent=None)
    yield "```"


def _fields(cls: type[msgspec.Struct]) -> Iterator[str]:
    hints = get_type_hints(cls, include_extras=False)
    yield "| field | type | when absent |"
    yield "|---|---|---|"
    for field in msgspec.structs.fields(cls):
        if field.required:
            absent = "required"
        else:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            absent = f"`{default!r}`"
        yield f"| {field.name} | {_type(hints[field.name])} | {absent} |"


def _type(hint: Any) -> str:
    if get_origin(hint) is None:
        return "none" if hint is type(None) else getattr(hint, "__name__", str(hint))
    words = [arg if isinstance(arg, str) else _type(arg) for arg in get_args(hint) if arg is not Ellipsis]
    name = getattr(get_origin(hint), "__name__", "")
    if name == "Literal":
        return " or ".join(words) if len(words) <= 10 else f"one of {len(words)} words, see below"
    if name in ("tuple", "list"):
        return "list of " + " and ".join(words)
    if name == "dict":
        return f"map of {words[0]} to {words[1]}"
    return " or ".join(words)


def _nested(cls: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    found: list[type[msgspec.Struct]] = []

    def visit(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint.__name__ != "Matrix":
            if hint not in found:
                found.append(hint)
        else:
            for arg in get_args(hint):
                visit(arg)

    for name, hint in get_type_hints(cls).items():
        if name in cls.__struct_fields__:
            visit(hint)
    return found


def _tag(cls: type[Record]) -> str:
    return str(cls.__struct_config__.tag)


if __name__ == "__main__":
    print(wire_page(), end="")
