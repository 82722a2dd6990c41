"""Uploaded files live no longer than they are needed, and take no more room than they may."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import stat
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

MOST_FILES = 2000  # that the folder holds, however small


class Uploads:
    """The folder of uploads: regular files at FOLDER/HASH/NAME. Nothing else is captioned or removed.

    There is no login, so an upload belongs to whoever knows its path. Gradio makes the hash from the content and a
    secret of this installation: nobody learns the path but who uploads that content. Equal files share one path, so
    uploads are counted as they arrive. Each pays for one call; a call that none is left for is refused; the file is
    removed with the last of them.
    """

    def __init__(self, folder: Path, keep: float, quota: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.keep = keep  # seconds after which anything is removed
        self.quota = quota  # bytes that all of them may take
        self._reserved = 0  # bytes that are still to arrive
        self._arriving = 0  # uploads under way
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

    def reserve(self, size: int) -> bool:
        """Set aside room for an upload that begins, if there is some; `finished` ends it."""
        with self._lock:
            files = self._sizes()
            if sum(files) + self._reserved + size > self.quota or len(files) + self._arriving >= MOST_FILES:
                return False
            self._reserved += size
            self._arriving += 1
            return True

    def release(self, size: int) -> None:
        """So many of the reserved bytes are in the folder."""
        with self._lock:
            self._reserved -= size

    def finished(self, left: int) -> None:
        """An upload has ended, well or badly, with so many bytes of its room unused."""
        with self._lock:
            self._reserved -= left
            self._arriving -= 1
            if not self._arriving:
                self._remove_partial(math.inf)

    def arrived(self, path: str) -> None:
        with self._lock:
            self._waiting[_absolute(path)] += 1

    def adopt(self, example: Path) -> Path:
        """A copy of our own file that counts as an upload; visitors share it."""
        copy = self.folder / "example" / example.name
        with self._lock:
            copy.parent.mkdir(exist_ok=True)
            if self.holds(copy):
                os.utime(copy)  # it is as young as if it came now
            else:
                shutil.copyfile(example, copy)
                self._waiting[copy] = 1
        return copy

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
        """Remove what is older than `keep`: uploads that no call followed, those that the page has shown, and parts."""
        oldest = time.time() - self.keep
        with self._lock:
            self._remove_partial(oldest)
            for path in [p for p in self.folder.glob("*/*") if p.lstat().st_ctime < oldest]:
                self._waiting.pop(path, None)
                self._remove(path)

    def _sizes(self) -> list[int]:
        """Of uploads, and of parts of those under way."""
        sizes = []
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with contextlib.suppress(OSError):  # gone since
                    sizes.append(os.lstat(os.path.join(folder, name)).st_size)
        return sizes

    def _remove_partial(self, oldest: float) -> None:
        """Gradio writes an upload to FOLDER/tmp…, and leaves it there if it does not become one."""
        for path in self.folder.glob("tmp*"):
            with contextlib.suppress(OSError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()

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
