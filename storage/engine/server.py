"""ClickHouse's HTTP interface over the embedded engine."""

import asyncio
import errno
import logging
import secrets
import socket
import time
import uuid
from pathlib import Path

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from storage.engine.access import Access
from storage.engine.answer import CHUNK, Answer, Work, run, summary_header
from storage.engine.body import Spool, collect, receive, spool
from storage.engine.compress import Decoder, encoder
from storage.engine.errors import (
    BAD_ARGUMENTS,
    NOT_ENOUGH_SPACE,
    NOT_IMPLEMENTED,
    QUERY_IS_TOO_LARGE,
    READONLY,
    SYNTAX_ERROR,
    UNKNOWN_EXCEPTION,
    ClickHouseError,
    late,
    status,
)
from storage.engine.forbidden import check_parameters
from storage.engine.formats import content_type
from storage.engine.lanes import Lane, Lanes
from storage.engine.request import Call, call_of, pairs_of
from storage.engine.sql import outline

HEAD = 1 << 20
"""How much of a body is looked at for the statement; the rows of an INSERT behind it are not."""

TEXT_MAX = 64 << 20
"""Of a statement without rows. The engine's own limit, max_query_size, is lower unless a client raises it."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

URL_MAX = 1 << 20
KEEP_ALIVE_S = 3600.0
"""Long, so that an idle connection is not closed under an insert that just goes out on it."""

_log = logging.getLogger(__name__)


class Server:
    """The handlers. One request is one statement; it runs in a lane's threads, the loop only moves bytes."""

    def __init__(self, lanes: Lanes, access: Access, folder: Path) -> None:
        self._lanes, self._access, self._folder = lanes, access, folder
        self._name = socket.gethostname()

    def application(self) -> web.Application:
        """The routes: everything is a query but `/ping`."""
        application = web.Application()
        application.router.add_get("/ping", self.ping)
        application.router.add_get("/", self.query)
        application.router.add_post("/", self.query)
        return application

    async def ping(self, request: web.Request) -> web.Response:
        return web.Response(text="Ok.\n")

    async def query(self, request: web.Request) -> web.StreamResponse:
        """Answer one statement; errors become ClickHouse's text, code and status."""
        pairs = pairs_of(request.raw_path.partition("?")[2])
        given = dict(pairs)
        if request.method != "POST" and "query" not in given:
            return web.Response(text="Ok.\n")
        query_id = given.get("query_id", "")
        if not (query_id and query_id.isascii() and query_id.isprintable()):
            query_id = str(uuid.uuid4())
        try:
            self._access.check(given, request.headers)
            is_form = request.content_type == "multipart/form-data"
            call = call_of(request.method, pairs + (await _form(request) if is_form else []), request.headers)
            with spool(self._folder) as body:
                if not is_form:
                    await receive(request.content.iter_any(), Decoder(call.body_encoding), body)
                return await self._run(request, call, body, query_id)
        except ClickHouseError as error:
            return self._failed(error, query_id)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except (web.RequestPayloadError, HttpProcessingError) as error:
            said = (str(error).splitlines() or [""])[0][:200]
            return self._failed(ClickHouseError(BAD_ARGUMENTS, f"The request's body is no HTTP: {said}"), query_id)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                return self._failed(ClickHouseError(NOT_ENOUGH_SPACE, f"{self._folder}: {error.strerror}"), query_id)
            _log.exception("a request failed in a way that was not thought of")
            return self._failed(ClickHouseError(UNKNOWN_EXCEPTION, f"{type(error).__name__}: {error}"), query_id)

    async def _run(self, request: web.Request, call: Call, body: Spool, query_id: str) -> web.StreamResponse:
        began = time.perf_counter_ns()
        text = _text(call, body)
        statement = outline(text)
        if statement.insert is None and (more := body.read(TEXT_MAX + 1)):
            if len(more) > TEXT_MAX:
                raise ClickHouseError(QUERY_IS_TOO_LARGE, f"A statement of more than {TEXT_MAX >> 20} MiB")
            text += more
            statement = outline(text)
        if not statement.keyword:
            raise ClickHouseError(SYNTAX_ERROR, "Empty query")
        check_parameters(text, call.params.values())
        if call.settings.get("readonly", "0") != "0" and not statement.harmless:
            raise ClickHouseError(READONLY, f"{statement.keyword} is not allowed: the request is readonly")
        with spool(self._folder) as whole:
            async with self._lanes.enter(Work(call, statement, text, body)) as lane:
                answer, size = await lane.do(self._begin, lane, whole)
                headers = self._headers(query_id, answer, call.answer_encoding)
                if size is None:
                    lane.on_close = answer.close
                    return await self._stream(request, call, lane, answer, headers)
            headers["X-ClickHouse-Summary"] = summary_header(answer.summary, time.perf_counter_ns() - began).decode()
            return await _send(request, whole, size, headers)

    def _begin(self, lane: Lane, whole: Spool) -> tuple[Answer, int | None]:
        """Run a statement to its first bytes. Where they are all, or all are asked for, `whole` gets them."""
        call = lane.work.call
        answer = run(lane.connection, lane.settings, lane.work, self._folder)
        if answer.goes_on and not call.whole:
            return answer, None
        try:
            return answer, collect(answer.next, encoder(call.answer_encoding if answer.format else ""), whole)
        finally:
            answer.close()

    async def _stream(
        self, request: web.Request, call: Call, lane: Lane, answer: Answer, headers: dict[str, str]
    ) -> web.StreamResponse:
        tag = secrets.token_hex(8)
        headers["X-ClickHouse-Exception-Tag"] = tag
        headers["X-ClickHouse-Summary"] = summary_header(answer.summary, 0).decode()
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        compressor = encoder(call.answer_encoding)

        def following() -> bytes | None:
            chunk = answer.next()
            return None if chunk is None else compressor.compress(chunk)

        try:
            while (piece := await lane.do(following)) is not None:
                if piece:
                    await response.write(piece)
        except ClickHouseError as error:
            lane.well = False
            # The status is long gone: the error goes into the body, and the body ends without its end, so that no
            # client takes it for whole.
            block = late(error.line(self._lanes.database.version), tag)
            await response.write(compressor.compress(block) + compressor.flush())
            _cut(request)
            return response
        await response.write(compressor.flush())
        return response

    def _headers(self, query_id: str, answer: Answer | None, encoding: str) -> dict[str, str]:
        headers = {
            "X-ClickHouse-Query-Id": query_id,
            "X-ClickHouse-Server-Display-Name": self._name,
            "X-ClickHouse-Timezone": self._lanes.database.timezone,
            "Content-Type": "text/plain; charset=UTF-8",
        }
        if answer is not None and answer.format is not None:
            headers["X-ClickHouse-Format"] = answer.format
            headers["Content-Type"] = content_type(answer.format)
            if encoding:
                headers["Content-Encoding"] = encoding
        return headers

    def _failed(self, error: ClickHouseError, query_id: str) -> web.Response:
        headers = self._headers(query_id, None, "")
        headers["X-ClickHouse-Exception-Code"] = str(error.code)
        body = error.line(self._lanes.database.version).encode("utf-8", "replace")
        return web.Response(body=body, status=status(error.code), headers=headers)


def _text(call: Call, body: Spool) -> bytes:
    """The statement: the URL's part and the body's as two lines, as far as HEAD."""
    head = body.read(HEAD)
    return call.query + b"\n" + head if call.query and head else call.query or head


async def _form(request: web.Request) -> list[tuple[str, str]]:
    """The fields of a form: `query` and `param_*`, for what is too long for a URL."""
    fields = []
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or part.filename:
                raise ClickHouseError(
                    NOT_IMPLEMENTED, "External data is not supported by the embedded engine: insert it"
                )
            fields.append((part.name or "", bytes(await part.read(decode=True)).decode("utf-8", "surrogateescape")))
    except web.HTTPRequestEntityTooLarge as error:
        raise ClickHouseError(QUERY_IS_TOO_LARGE, f"A field of the form is too large: {error.text}") from None
    except (ValueError, AssertionError, LookupError) as error:
        raise ClickHouseError(BAD_ARGUMENTS, f"The form cannot be read: {error}") from None
    return fields


async def _send(request: web.Request, whole: Spool, size: int, headers: dict[str, str]) -> web.StreamResponse:
    if size <= CHUNK:
        return web.Response(body=whole.read(), headers=headers)
    response = web.StreamResponse(headers=headers)
    response.content_length = size
    await response.prepare(request)
    while chunk := whole.read(CHUNK):
        await response.write(chunk)
    return response


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()
