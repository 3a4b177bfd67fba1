"""One request to something that is no receiver: it ends in its time, and what is said of it is plain."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from alerts.http import Http, NoReply, judge
from alerts.receiver import Outcome

TIMEOUT_S = 0.5
HEAD = b"HTTP/1.1 202 Accepted\r\n"
HANDSHAKE = b"\x16"


@contextlib.contextmanager
def server(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Reads one request a connection (with `{}` in it), and lets `answer` do the rest."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(link,), daemon=True).start()

    def handle(link: socket.socket) -> None:
        with link, contextlib.suppress(OSError):
            asked = b""
            # All of it: who closes with something unread resets the connection, and what was answered may be lost.
            while not asked.startswith(HANDSHAKE) and not asked.endswith(b"{}"):
                asked += link.recv(65_536) or b"{}"
            answer(link)

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/secret-path"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def drip(link: socket.socket, first: bytes, drop: bytes) -> None:
    """`first`, then `drop` for ever, each well within the socket's own timeout."""
    link.sendall(first)
    while True:
        link.sendall(drop)
        time.sleep(TIMEOUT_S / 10)


@pytest.mark.parametrize(
    ("first", "drop", "delivered"),
    [
        (b"HTTP/1.1 2", b"0", False),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", False),
        (HEAD, b"X-More: yes\r\n", True),
        (HEAD + b"X-One: ", b"x", True),
        (HEAD + b"Content-Length: 100000\r\n\r\n", b"x", True),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", True),
    ],
)
def test_an_answer_that_drips_for_ever_ends_in_its_time(first: bytes, drop: bytes, delivered: bool) -> None:
    with server(lambda link: drip(link, first, drop)) as url:
        http = Http("", TIMEOUT_S)
        for _ in range(2):
            begin = time.monotonic()
            try:
                answer = judge(http.send("POST", url, b"{}"))
            except NoReply as none:
                answer = none.answer()
            assert (answer.outcome is Outcome.DELIVERED) is delivered, "the status counts, where there is one"
            assert answer.arrived
            assert delivered or answer.text == f"no answer in {TIMEOUT_S:g} s"
            assert time.monotonic() - begin < 10 * TIMEOUT_S


def test_what_is_left_of_a_large_answer_is_not_the_beginning_of_the_next() -> None:
    large = HEAD + b"Content-Length: 10485760\r\n\r\n" + b"x" * 10_485_760
    with server(lambda link: link.sendall(large)) as url:
        http = Http("", 5.0)
        for _ in range(3):
            assert http.send("POST", url, b"{}").status == 202


def test_a_name_server_that_is_silent_takes_no_longer_than_the_time_and_nothing_is_sent_when_it_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speaks, asked = threading.Event(), socket.getaddrinfo

    def silent(*about: Any, **more: Any) -> Any:
        speaks.wait(30)
        return asked(*about, **more)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        monkeypatch.setattr(socket, "getaddrinfo", silent)
        with pytest.raises(NoReply) as none:
            Http("", 0.2).send("POST", f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}")
        assert not speaks.is_set(), "it did not wait for the name"
        assert (none.value.why, none.value.arrived) == ("not reached in 0.2 s", False)
        speaks.set()
        with listener.accept()[0] as late:
            late.settimeout(30)
            assert late.recv(100) == b"", "given up is given up: it would be a trigger after its resolve"


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x28", b""])
def test_what_fails_before_tls_stands_certainly_never_arrived(said: bytes) -> None:
    with server(lambda link: link.sendall(said)) as url, pytest.raises(NoReply) as none:
        Http("", 5.0).send("POST", url.replace("http:", "https:"), b"{}")
    assert not none.value.arrived
    assert not said or none.value.why.startswith("it does not speak our TLS: ")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "it hung up without an answer"),
        (b"HTTP/1.1 2", "its answer is no HTTP"),
        (HEAD + b"X: " + b"y" * 70_000, "its answer is no HTTP"),
    ],
)
def test_what_is_no_answer_is_said_in_words(said: bytes, why: str) -> None:
    with server(lambda link: link.sendall(said)) as url, pytest.raises(NoReply) as none:
        Http("", 5.0).send("POST", url, b"{}")
    assert (none.value.why, none.value.arrived) == (why, True)


def test_an_answer_that_would_move_a_cursor_is_said_without_it() -> None:
    hostile = "\x1b[2J\x00\x07<b>no\u202e\nroom".encode()
    answer = b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n" % len(hostile) + hostile
    with server(lambda link: link.sendall(answer)) as url:
        assert Http("", 5.0).send("POST", url, b"{}").text == "400 [2J<b>no room"


def test_a_token_that_cannot_be_sent_is_not_said() -> None:
    with pytest.raises(NoReply) as none:
        Http("", 5.0).send("POST", "http://127.0.0.1:1/", b"{}", {"Authorization": "Bearer hunter2\nX: y"})
    assert (none.value.why, none.value.arrived) == (
        "its address, token or password has letters that cannot be sent",
        False,
    )


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:1/secret-path", "Connection refused"),
        ("http://nobody.invalid/secret-path", "its name is not known to DNS"),
        ("http://127.0.0.1:99999/secret-path", "its address has a host or port that cannot be"),
        ("http://a..b/secret-path", "its address has a host or port that cannot be"),
    ],
)
def test_what_certainly_never_arrived_is_said_in_words_without_the_address(url: str, why: str) -> None:
    with pytest.raises(NoReply) as none:
        Http("", 5.0).send("POST", url, b"{}")
    assert (none.value.why, none.value.arrived) == (why, False)
