"""Uploaded files live no longer than they are needed, and the server says nothing about itself that it need not."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; frame-ancestors 'self'"
HEADERS = {
    "content-security-policy": POLICY,  # the page may ask no other server for anything
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Uploads:
    """The folder of uploads: regular files at FOLDER/HASH/NAME. Nothing else is captioned or removed.

    There is no login, so an upload belongs to whoever knows its path. Gradio makes the hash from the content and a
    secret of this installation: nobody learns the path but who uploads that content. Equal files share one path, so
    uploads are counted as they arrive. Each pays for one call; a call that none is left for is refused; the file is
    removed with the last of them.
    """

    def __init__(self, folder: Path, keep: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.keep = keep  # seconds after which anything is removed
        self._waiting: Counter[Path] = Counter()  # uploads that no call has been for
        self._running: Counter[Path] = Counter()  # calls
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_now_and_then, daemon=True)

    def __enter__(self) -> Uploads:
        self._sweeper.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        self._sweeper.join()

    def arrived(self, path: str) -> None:
        with self._lock:
            self._waiting[_absolute(path)] += 1

    def holds(self, path: Path) -> bool:
        """Whether an upload of this file waits for a call."""
        path = _absolute(path)
        return self._waiting[path] > 0 and path.parent.parent == self.folder and _is_regular(path)

    def take(self, path: Path) -> bool:
        """Begin a call on an upload of this file, if there is one; `done` ends it."""
        with self._lock:
            if not self.holds(path):
                return False
            self._waiting[_absolute(path)] -= 1
            self._running[_absolute(path)] += 1
            return True

    def done(self, path: Path) -> None:
        """The call has ended, well or badly."""
        path = _absolute(path)
        with self._lock:
            self._running[path] -= 1
            if not self._running[path] and not self._waiting[path]:
                del self._running[path], self._waiting[path]
                self._remove(path)

    def discard(self, path: Path) -> None:
        """An upload of this file, if it is one, is not needed any more."""
        if self.take(path):
            self.done(path)

    def sweep(self) -> None:
        """Remove what is older than `keep`: uploads that no call followed, and those that the page has shown."""
        oldest = time.time() - self.keep
        with self._lock:
            for path in [p for p in self.folder.glob("*/*") if p.lstat().st_ctime < oldest]:
                self._waiting.pop(path, None)
                self._remove(path)

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()  # of a link, the link
            path.parent.rmdir()  # of this content; not empty while the same content has another name

    def _sweep_now_and_then(self) -> None:
        while not self._stop.wait(min(30.0, self.keep)):
            with contextlib.suppress(OSError):
                self.sweep()


def _absolute(path: Path | str) -> Path:
    """As it is written: a link is not followed."""
    return Path(os.path.abspath(path))


def _is_regular(path: Path) -> bool:
    """Whether this is a regular file, neither a link nor in a folder that is one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode) and not path.parent.is_symlink()
    except (OSError, ValueError):  # not there, or no name that a file can have
        return False


class Guard:
    """ASGI middleware: counts uploads as they arrive, and adds the headers that keep the page to itself."""

    def __init__(self, app: Any, uploads: Uploads) -> None:
        self.app = app
        self.uploads = uploads

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        upload = scope["method"] == "POST" and scope["path"].rstrip("/").endswith("/upload")
        body = bytearray()

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    *((k.encode(), v.encode()) for k, v in HEADERS.items()),
                ]
            elif upload:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    self._count(bytes(body))
            await send(message)

        await self.app(scope, receive, guarded)

    def _count(self, body: bytes) -> None:
        with contextlib.suppress(ValueError, TypeError):
            for path in json.loads(body):
                self.uploads.arrived(str(path))
