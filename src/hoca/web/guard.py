"""Requests are checked before Gradio sees them: who asks, how much is sent, and whether there is room."""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse

from hoca.web.uploads import Uploads

POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; frame-ancestors 'self'"
HEADERS = {
    "content-security-policy": POLICY,  # the page may ask no other server for anything
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
BODY = 10**6  # bytes of a body that is no upload, and of what surrounds the file in one that is
RETRY_SECONDS = 30  # after a refusal for want of room
RETRY = {"retry-after": str(RETRY_SECONDS)}
READS = ("GET", "HEAD", "OPTIONS")
FULL = f"there is no room for another upload now: try again in {RETRY_SECONDS} s"


ORIGIN = "hoca.origin"  # in the scope of a request: the page that makes the browser send it


def answering(origins: Sequence[str]) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """To be called as the server starts: pages of these sites may read its answers, and no others.

    Gradio would let every page read, or on this machine none; so the name of the page does not reach it.
    """

    @asynccontextmanager
    async def started(app: Any) -> AsyncIterator[None]:
        inside = app.middleware_stack

        async def without_origin(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                kept = [pair for pair in scope["headers"] if pair[0] != b"origin"]
                scope = scope | {"headers": kept, ORIGIN: Headers(scope=scope).get("origin")}
            await inside(scope, receive, send)

        methods = ["GET", "POST"]
        app.middleware_stack = CORSMiddleware(without_origin, origins, allow_methods=methods, allow_headers=["*"])
        yield

    return started


class Guard:
    """ASGI middleware: refuses what comes from foreign pages, is too large or finds no room, and counts uploads."""

    def __init__(self, app: Any, uploads: Uploads, largest: int, origins: Collection[str] = ()) -> None:
        self.app = app
        self.uploads = uploads
        self.largest = largest + BODY  # bytes of the body of an upload
        self.origins = set(origins)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(receive, send)
        headers = Headers(scope=scope)
        if scope["method"] in READS:
            await self.app(scope, receive, exchange.send)
            return
        upload = scope["path"].rstrip("/").endswith("/upload")
        most = self.largest if upload else BODY
        if not self._at_home(scope.get(ORIGIN, headers.get("origin")), headers.get("host", "")):
            await exchange.refuse(403, "pages of other sites may not post here: see --allow-origin")
        elif (size := _declared(headers, most)) > most:
            await exchange.refuse(413, f"this is larger than {most // 10**6} MB")
        elif upload:
            await self._upload(scope, exchange, size)
        else:
            await self._other(scope, exchange)

    def _at_home(self, origin: str | None, host: str) -> bool:
        """Whether no page, the server's own, or one that is let in makes the browser send this."""
        if origin is None or origin.lower() in self.origins:
            return True
        return urlsplit(origin).netloc.lower() == host.lower()

    async def _upload(self, scope: Any, exchange: _Exchange, size: int) -> None:
        """An upload of at most `size` bytes, which are set aside for it."""
        if not self.uploads.reserve(size):
            await exchange.refuse(507, FULL, RETRY)
            return
        left = size

        async def receive() -> Any:
            nonlocal left
            message = await exchange.receive()
            arrived = len(message.get("body", b""))
            # Gradio's parser removes what it has written at this exception alone.
            if message["type"] == "http.disconnect":
                raise MultiPartException("the upload was broken off")
            if arrived > left:
                raise MultiPartException(f"larger than the maximum allowed size of {size} bytes")
            left -= arrived
            self.uploads.release(arrived)  # it is in the folder now
            return message

        exchange.before_end = self._count
        try:
            await self.app(scope, receive, exchange.send)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or exchange.status:
                raise
            await exchange.refuse(507, FULL, RETRY)
        finally:
            self.uploads.finished(left)

    def _count(self, answer: bytes) -> None:
        with contextlib.suppress(ValueError, TypeError):
            for path in json.loads(answer):
                self.uploads.arrived(str(path))

    async def _other(self, scope: Any, exchange: _Exchange) -> None:
        body, more = bytearray(), True
        while more:
            message = await exchange.receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > BODY:
                await exchange.refuse(413, f"this is larger than {BODY // 10**6} MB")
                return
        replayed = False

        async def receive() -> Any:
            nonlocal replayed
            if replayed:
                return await exchange.receive()
            replayed = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self.app(scope, receive, exchange.send)
        if exchange.status == 503:
            self._forget(bytes(body))

    def _forget(self, call: bytes) -> None:
        """A program whose call was refused uploads again; a visitor's page, which names its trigger, keeps its file."""
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            asked = json.loads(call)
            if asked.get("trigger_id") is None:
                for value in asked["data"]:
                    if isinstance(value, dict) and "path" in value:
                        self.uploads.discard(Path(str(value["path"])))


class _Exchange:
    """One request and its answer, to which our headers are added."""

    def __init__(self, receive: Any, send: Any) -> None:
        self.receive = receive
        self._send = send
        self.status = 0  # not answered yet
        self.before_end: Callable[[bytes], None] | None = None  # gets the body before its last part is sent
        self._body = bytearray()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            added = HEADERS | (RETRY if self.status == 503 else {})
            message["headers"] = [*message.get("headers", ()), *((k.encode(), v.encode()) for k, v in added.items())]
        elif self.before_end:
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                self.before_end(bytes(self._body))
        await self._send(message)

    async def refuse(self, status: int, why: str, headers: dict[str, str] | None = None) -> None:
        """Answer and close: what is left of the body is not read."""
        response = PlainTextResponse(why, status, {"connection": "close", **(headers or {})})
        await response({"type": "http"}, self.receive, self.send)


def _declared(headers: Headers, most: int) -> int:
    """How many bytes the body has; `most` if it does not say."""
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() else most
