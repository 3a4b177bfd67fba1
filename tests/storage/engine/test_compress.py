"""HTTP compression both ways, in pieces and in many frames."""

import gzip
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from storage.engine.compress import ENCODINGS, Decoder, accepted, encoder
from storage.engine.errors import ClickHouseError


@given(st.sampled_from(("", *ENCODINGS)), st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 50))
def test_what_was_compressed_comes_back_however_it_is_cut(encoding: str, pieces: list[bytes], cut: int) -> None:
    compressor = encoder(encoding)
    body = b"".join(compressor.compress(piece) for piece in pieces) + compressor.flush()
    decoder = Decoder(encoding)
    back = b"".join(decoder.feed(body[at : at + cut]) for at in range(0, len(body), cut))
    decoder.finish()
    assert back == b"".join(pieces)


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("lz4", lz4.frame.compress),
    ],
)
def test_a_frame_per_block(encoding: str, compress: object) -> None:
    assert callable(compress)
    body = compress(b"one") + compress(b"") + compress(b"two")
    for cut in (1, len(body)):
        decoder = Decoder(encoding)
        assert b"".join(decoder.feed(body[at : at + cut]) for at in range(0, len(body), cut)) == b"onetwo"
        decoder.finish()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_broken_body_is_an_error_with_a_code(encoding: str) -> None:
    compressor = encoder(encoding)
    body = compressor.compress(b"x" * 1000) + compressor.flush()
    cut = Decoder(encoding)
    cut.feed(body[:-3])
    with pytest.raises(ClickHouseError, match="ends inside a frame"):
        cut.finish()
    with pytest.raises(ClickHouseError, match=f"is no {encoding}"):
        Decoder(encoding).feed(b"\x00plain text, and some more of it\xff\xff\xff\xff")


def test_an_unknown_encoding_is_refused() -> None:
    with pytest.raises(ClickHouseError) as refused:
        Decoder("br")
    assert refused.value.code == 89


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("", ""),
        ("identity", ""),
        ("lz4,zstd,gzip,deflate", "lz4"),
        ("deflate, gzip, br, zstd", "zstd"),
        ("gzip;q=0, deflate;q=0.5", "deflate"),
        ("GZIP", "gzip"),
    ],
)
def test_choosing_an_encoding(header: str, chosen: str) -> None:
    assert accepted(header) == chosen
