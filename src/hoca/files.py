"""Files that are either whole or not there."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hoca.errors import UserError


@contextmanager
def replacing(path: Path, *, wait: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` once the block has written it without error.

    A reader, a crash or a full disk never sees half a file: the old content stays until the new one is on disk.
    Thousands of small files that are quickly made again need not `wait` for the disk; only a power cut can harm them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if wait:
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except Exception as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or "os error 28" in str(error):  # safetensors reports the same in its own exception
            raise UserError(
                f"no space left on the disk for {path}: free some and run the same command again"
            ) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
