"""Files that are either whole or not there, their hashes and their names."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from hoca.errors import UserError


@contextmanager
def replacing(path: Path, *, wait: bool = True) -> Iterator[Path]:
    """Yield a temporary path; once the block has written it without error, it becomes the file `path`.

    A reader, a crash or a full disk never sees half a file: the old content stays until the new one is on disk.
    Thousands of small files that are quickly made again need not `wait` for the disk; only a power cut can harm them.

    Of a link the target is replaced. A device, a pipe, or what this process prints to is not replaced: it gets the
    bytes.
    """
    straight = _takes_bytes(path)
    place = Path(os.path.realpath(path))
    if straight:
        handle, name = tempfile.mkstemp(prefix="hoca-", suffix=".tmp")
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if straight:
            with open(temporary, "rb") as written, _opened(path) as out:
                shutil.copyfileobj(written, out)
            return
        if wait:
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(place)
    except Exception as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or "os error 28" in str(error):  # safetensors reports the same in its own exception
            raise UserError(
                f"no space left on the disk for {path}: free some and run the same command again"
            ) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _takes_bytes(path: Path) -> bool:
    """Whether something is at `path` that a file must not take the place of."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path} is a folder: give the name of a file to write")
    return not stat.S_ISREG(found.st_mode) or _printed_to(found) is not None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """`path` to write to. Output that is redirected to a file is continued: opened anew, it would begin again."""
    descriptor = _printed_to(os.stat(path))
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # what was printed before stays before
    with open(path, "wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb") as out:
        yield out


def _printed_to(found: os.stat_result) -> int | None:
    """The descriptor of standard output or standard error, if it is this file."""
    for descriptor in (1, 2):
        with suppress(OSError):  # closed
            if os.path.samestat(found, os.fstat(descriptor)):
                return descriptor
    return None


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Hold `folder` for this process alone; if another one holds it, a `UserError` says which.

    The system lets go of it when the process ends, however that happens; the file stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "a+", encoding="utf-8") as file:
        if not _take(file):
            file.seek(0)
            holder = escaped(file.read(200).strip()) or "another process"
            raise UserError(f"{folder} is in use by {holder}: wait until it has ended, or choose another {what}")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        _held.add(file.fileno())
        try:
            yield
        finally:
            _held.discard(file.fileno())


LOCK = ".lock"
_held: set[int] = set()  # descriptors of locks


def _take(file: TextIO) -> bool:
    if sys.platform == "win32":
        return True  # which refuses to replace a file that is open anyway
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # a network file system without locks
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True


def _let_go() -> None:
    """A worker process that outlives its killed parent for a moment must not hold the lock that it inherited."""
    for descriptor in _held:
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def require_file(path: Path) -> None:
    """As opening would complain, but of a pipe too, which opening would wait for."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if not path.is_file():
        raise OSError(errno.EINVAL, "not a file", str(path))


def sha256_of(file: Path) -> str:
    """The hash of a file's content."""
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def in_units(size: int) -> str:
    """A number of bytes as people say it: 512 bytes, 104.9 MB, 2.147 GB."""
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} bytes"


def printable(name: Path | str) -> str:
    """A file's name in one printable line, whatever bytes it is made of."""
    text = os.fspath(name)
    return text if text.isprintable() else escaped(os.fsencode(text).decode("utf-8", "backslashreplace"))


def escaped(text: str) -> str:
    """What a file or a model says, without the characters that would command a terminal."""
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode("ascii") for mark in text)
