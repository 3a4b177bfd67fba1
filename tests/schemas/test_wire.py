"""Records, bytes and the wire page agree, and bytes once written stay readable."""

from pathlib import Path

import msgspec
import pytest

from schemas import RECORDS, Event, Features, NodeFrame, Record
from schemas.codec import WireError, decode, encode
from schemas.examples import EXAMPLES
from schemas.features import GpuFeatures
from schemas.page import wire_page
from schemas.readable import readable
from schemas.topics import TOPICS

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "wire"


def tag(record: Record | type[Record]) -> str:
    return str(record.__struct_config__.tag)


def test_every_record_has_an_example_and_a_topic() -> None:
    assert {type(example) for example in EXAMPLES} == set(RECORDS)
    assert {cls.topic for cls in RECORDS} == set(TOPICS)


def test_the_wire_page_is_written_from_the_classes() -> None:
    assert (ROOT / "docs" / "wire.md").read_text() == wire_page(), "run `make wire`"


@pytest.mark.parametrize("example", EXAMPLES, ids=tag)
def test_bytes_are_the_golden_ones(example: Record) -> None:
    golden = GOLDEN / f"{tag(example)}.v{example.v}.hex"
    assert encode(example).hex() == golden.read_text().strip(), (
        f"the bytes of {tag(example)} changed: with a changed meaning raise its version and add a golden file; "
        "a field added with a default only needs the newest golden file written anew"
    )


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.hex")), ids=lambda path: path.stem)
def test_every_golden_file_of_every_version_is_still_read(golden: Path) -> None:
    record = decode(bytes.fromhex(golden.read_text()))
    assert golden.stem == f"{tag(record)}.v{record.v}"


@pytest.mark.parametrize("example", EXAMPLES, ids=tag)
def test_round_trip_and_topic(example: Record) -> None:
    # Compared as readable values because NaN does not equal itself.
    back = decode(encode(example), topic=type(example).topic)
    assert type(back) is type(example)
    assert readable(back) == readable(example)
    assert back.key == example.key
    assert back.identity == example.identity


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not_msgpack"),
        (b"\xc1", "not_msgpack"),
        (b'{"json": true}', "unknown_type"),
        (b"\x00", "unknown_type"),
        (msgspec.msgpack.encode({"no": "type"}), "unknown_type"),
        (msgspec.msgpack.encode({"type": "martian"}), "unknown_type"),
        (msgspec.msgpack.encode({"type": "event", "v": 99}), "future_version"),
        (msgspec.msgpack.encode({"type": "event", "v": 1}), "invalid_field"),
        (encode(EXAMPLES[0])[:-3], "not_msgpack"),
    ],
)
def test_what_is_no_record_is_named_by_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(payload)
    assert caught.value.reason == reason
    assert reason in WireError.REASONS


@pytest.mark.parametrize(
    ("field", "value"),
    [("ts_ms", -1), ("ts_ms", 10**15), ("run_id", -3), ("cluster", ""), ("node", ""), ("severity", "mild")],
)
def test_a_field_out_of_range_is_refused_with_its_name(field: str, value: object) -> None:
    plain = msgspec.msgpack.decode(encode(EXAMPLES[1]))
    plain[field] = value
    with pytest.raises(WireError, match=field) as caught:
        decode(msgspec.msgpack.encode(plain))
    assert caught.value.reason == "invalid_field"


def test_a_matrix_with_too_few_bytes_is_refused() -> None:
    plain = msgspec.msgpack.decode(encode(EXAMPLES[0]))
    plain["sections"]["gpu"][2] = b"\x00\x00"
    with pytest.raises(WireError, match="matrix data has 2 bytes, 8 expected"):
        decode(msgspec.msgpack.encode(plain))


def test_features_whose_matrices_have_other_rows_are_refused_and_a_gpu_is_put_together_again() -> None:
    gpus = (GpuFeatures(uuid="a", rank=1, z={"power_w": -9.5}), GpuFeatures(uuid="b", readings={"power_w": 512.0}))
    features = Features.of(gpus, cluster="c", ts_ms=0, node="n", run_id=1, seq=1)
    assert [decode(encode(features)).gpu(place) for place in (0, 1)] == list(gpus)  # type: ignore[attr-defined]
    plain = msgspec.msgpack.decode(encode(features))
    plain["gpus"].pop()
    with pytest.raises(WireError, match="a matrix of 2 rows for 1 GPUs") as caught:
        decode(msgspec.msgpack.encode(plain))
    assert caught.value.reason == "invalid_field"


def test_a_record_on_another_topic_is_refused() -> None:
    with pytest.raises(WireError) as caught:
        decode(encode(EXAMPLES[0]), topic="events")
    assert caught.value.reason == "wrong_topic"


def test_fields_of_a_newer_writer_are_ignored_and_missing_ones_filled() -> None:
    plain = msgspec.msgpack.decode(encode(EXAMPLES[1]))
    plain["colour"] = "green"
    del plain["text"]
    event = decode(msgspec.msgpack.encode(plain))
    assert isinstance(event, Event)
    assert event.text == ""


def test_identity_of_a_kernel_line_does_not_depend_on_the_run_that_read_it() -> None:
    event = EXAMPLES[1]
    assert isinstance(event, Event)
    again = msgspec.structs.replace(event, run_id=9, seq=1)
    assert again.identity == event.identity
    other = msgspec.structs.replace(event, kmsg_seq=None)
    assert other.identity != msgspec.structs.replace(other, run_id=9).identity


def test_identity_of_a_frame_does_not_depend_on_its_clock() -> None:
    frame = EXAMPLES[0]
    assert isinstance(frame, NodeFrame)
    assert msgspec.structs.replace(frame, ts_ms=0).identity == frame.identity
    assert msgspec.structs.replace(frame, seq=0).identity != frame.identity
