"""A process that decodes one file after the other for another process, within limits. It never imports torch."""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import socket
import threading
import time

from hoca.errors import UserError
from hoca.files import printable
from hoca.media.decode import decode
from hoca.media.request import DecodeLimits, Request
from hoca.media.source import reason
from hoca.media.transport import receive, send, send_decoded, send_failure

OUT_OF_MEMORY = 99  # exit status; what ran out of memory may not be sound any more, so it ends


def main(descriptor: int, parent: int) -> None:
    """Serve requests that come over the socket until it is closed."""
    connection = socket.socket(fileno=descriptor)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    limits, threads = pickle.loads(receive(connection)[0])
    _limit(limits)
    send(connection, b"")  # ready
    while True:
        try:
            message, _ = receive(connection)
        except (EOFError, OSError):
            return
        # Decoding stops by itself after a frame that comes too late. The default action of this signal ends the
        # process, even in the middle of a decoder's loop.
        signal.setitimer(signal.ITIMER_REAL, limits.decode_seconds + 1)
        _serve(connection, message, limits, threads)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _serve(connection: socket.socket, message: bytes, limits: DecodeLimits, threads: int) -> None:
    try:
        request: Request = pickle.loads(message)
    except Exception as error:
        send_failure(connection, f"a worker process cannot import what picks or transforms frames ({reason(error)})")
        return
    try:
        decoded = decode(request, limits, threads)
        if decoded.damage and _starved(limits):
            os._exit(OUT_OF_MEMORY)
        send_decoded(connection, decoded)
    except UserError as error:
        if isinstance(error.__context__, MemoryError) or _starved(limits):
            os._exit(OUT_OF_MEMORY)
        send_failure(connection, str(error))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except Exception as error:
        send_failure(connection, f"{printable(request.path)}: {type(error).__name__}: {reason(error)}")


def _limit(limits: DecodeLimits) -> None:
    import av  # noqa: F401  what every request needs is loaded before the memory is limited

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # there are systems that have no such limit
        most = _status("VmSize") + limits.memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _starved(limits: DecodeLimits) -> bool:
    """Whether the memory went nearly to its end: decoders call it damage of the file when they get no more.

    If it was an earlier file that took so much, the next worker tries this one again.
    """
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    with contextlib.suppress(OSError):
        return most != resource.RLIM_INFINITY and _status("VmPeak") > most - limits.memory // 5
    return False


def _status(key: str) -> int:
    """Bytes, from what the system says about this process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{key}:"))


def _end_with(parent: int) -> None:
    """A worker whose parent was killed has nobody to answer to."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
