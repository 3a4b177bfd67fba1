"""Requests that are no HTTP, or a broken one: status 400, and no traceback in the log."""

import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clickhouse_provider import ROOT, published_port

from runtime.log import Repeats
from storage.engine.noise import OneLine

POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"

BROKEN = {
    "a form without a boundary": POST + b"Content-Type: multipart/form-data\r\nContent-Length: 1\r\n\r\nx",
    "a form that is none": POST + b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 5\r\n\r\nabcde",
    "a body that is no gzip": POST + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
    "a chunk without a size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nSELECT 1\r\n0\r\n\r\n",
    "a later chunk without a size": POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nSEL\r\nzz\r\nECT\r\n",
    "a negative length": POST + b"Content-Length: -5\r\n\r\n",
    "a URL of two megabytes": b"GET /?query=" + b"x" * (2 << 20) + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """An engine's port and its log."""
    folder = tmp_path_factory.mktemp("bad")
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "storage.engine", "--data", str(folder / "data"), "--port", "0"],
            cwd=ROOT,
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield published_port(process), log
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def sent(port: int, request: bytes) -> bytes:
    """The first line of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        with contextlib.suppress(ConnectionError):  # it answers before it has all
            connection.sendall(request)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while b"\r\n" not in answer and (piece := connection.recv(4096)):
                answer += piece
        return answer.partition(b"\r\n")[0]


def test_a_field_of_a_form_that_is_too_large_is_refused_in_words(logged: tuple[int, Path]) -> None:
    port, log = logged
    before = len(log.read_text().splitlines())
    field = b'--b\r\nContent-Disposition: form-data; name="query"\r\n\r\n' + b"x" * (3 << 20) + b"\r\n--b--\r\n"
    head = POST + b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n" % len(field)
    assert sent(port, head + field).split()[1] in (b"400", b"413", b"500")
    assert log.read_text().splitlines()[before:] == []


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_request_is_400_and_at_most_one_line(logged: tuple[int, Path], what: str) -> None:
    port, log = logged
    before = len(log.read_text().splitlines())
    for _ in range(5):
        assert b" 400 " in sent(port, BROKEN[what])
    said = log.read_text().splitlines()[before:]
    assert len(said) <= 1, said


def test_one_kind_of_refusal_is_one_line_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    logger = logging.Logger("http")
    logger.addFilter(OneLine(Repeats(now=lambda: now[0])))
    for at in (0.0, 1.0, 2.0, 11.0):
        now[0] = at
        try:
            raise ValueError("no HTTP\nmore of it")
        except ValueError:
            logger.exception("Error handling request")
    assert [record.message for record in caplog.records] == [
        "a request was refused: no HTTP",
        "a request was refused: no HTTP (2 more like this)",
    ]
    assert all(record.exc_info is None for record in caplog.records)
