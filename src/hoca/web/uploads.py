"""Uploaded files live no longer than they are needed, and the server says nothing about itself that it need not."""

from __future__ import annotations

import contextlib
import json
import shutil
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
    """The folder of uploads. Equal files share one path, so a path is removed with the last call that it was for."""

    def __init__(self, folder: Path, keep: float) -> None:
        self.folder = folder
        self.keep = keep  # seconds after which anything is removed
        self._waiting: Counter[Path] = Counter()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep_now_and_then, daemon=True)
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Uploads:
        self._sweeper.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        self._sweeper.join()

    def arrived(self, path: str) -> None:
        with self._lock:
            self._waiting[Path(path).resolve()] += 1

    def done(self, path: Path) -> None:
        """One call on this file has ended, well or badly."""
        path = path.resolve()
        with self._lock:
            self._waiting[path] -= 1
            if self._waiting[path] <= 0:
                del self._waiting[path]
                self._remove(path)

    def sweep(self) -> None:
        """Remove what is older than `keep`: uploads that no call followed, and those that the page has shown."""
        oldest = time.time() - self.keep
        with self._lock:
            for path in [p.resolve() for p in self.folder.glob("*/*") if p.stat().st_ctime < oldest]:
                self._waiting.pop(path, None)
                self._remove(path)

    def _remove(self, path: Path) -> None:
        if not path.is_relative_to(self.folder.resolve()):
            return  # an example, or a path that somebody made up
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.parent.rmdir()  # of this content; not empty while the same content has another name

    def _sweep_now_and_then(self) -> None:
        while not self._stop.wait(min(30.0, self.keep)):
            with contextlib.suppress(OSError):
                self.sweep()


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
