"""When Python looks for garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_blocks = 0  # that run now, in all threads
_collecting = True  # before the first of them


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """For work that makes many objects which stay: looking through them again and again takes a quarter of its time.

    Python looks again once no thread is within such a block any more.
    """
    global _blocks, _collecting
    with _lock:
        if _blocks == 0:
            _collecting = gc.isenabled()
        _blocks += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if _blocks == 0 and _collecting:
                gc.enable()
