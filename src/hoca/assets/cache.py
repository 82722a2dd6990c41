"""The folder where converted assets live, and a lock so that two processes do not convert the same one."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hoca.errors import UserError


def home() -> Path:
    """`HOCA_HOME`, or the platform's folder for caches."""
    chosen = os.environ.get("HOCA_HOME")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hoca"


def folder() -> Path:
    """Where assets are kept; created if it is not there."""
    place = home() / "assets"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the cache folder {place} cannot be made ({error.strerror}): set HOCA_HOME to another"
        ) from error
    return place


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Wait until no other process holds `name`; the system lets go of it when a process dies."""
    file = folder() / f".{name}.lock"
    with open(file, "a+b") as handle:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
                    break
                except OSError:
                    time.sleep(0.2)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
