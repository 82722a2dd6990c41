"""Worker processes that decode files, so that no file can harm this process."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType

from hoca.errors import UserError
from hoca.media.request import Decoded, Failure, Limits, Request
from hoca.media.source import shown
from hoca.media.transport import receive_answer, send

GRACE = 5.0  # seconds after its time limit at which a worker that did not end itself is ended


class Decoders:
    """A pool of decoding processes: `with Decoders(workers=2) as decoders: decoders.decode(request)`.

    Workers start when they are needed. One that crashes, or breaks a limit, costs one clip and is replaced.
    """

    def __init__(self, workers: int | None = None, limits: Limits | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers = workers or cores
        if self.workers < 1:
            raise UserError(f"{self.workers} decoding workers: give at least 1")
        self.limits = limits or Limits()
        self.threads = max(1, cores // self.workers)
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        self._running: set[_Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        for _ in range(self.workers):
            self._idle.put(None)

    def decode(self, request: Request) -> Decoded:
        """Decode in a worker; raises UserError with one line if that is not possible. Threads may call this at once."""
        message = pickle.dumps(request)
        worker = self._idle.get()
        try:
            if worker is None:
                worker = self._start()
            answer = worker.ask(request, message)
        except BaseException:
            if worker is not None:
                self._drop(worker)
            self._idle.put(None)
            raise
        self._idle.put(worker)
        if isinstance(answer, str):
            raise UserError(answer)
        return answer

    def map(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Decoded | Failure]]:
        """Each request with its result, in the order in which they are done.

        No more than two results a worker are decoded ahead of the one that is being used.
        """
        waiting = iter(requests)
        ahead: dict[Future[Decoded | Failure], Request] = {}
        threads = ThreadPoolExecutor(self.workers, "decode")
        try:
            while True:
                while len(ahead) < 2 * self.workers and (request := next(waiting, None)) is not None:
                    ahead[threads.submit(self._attempt, request)] = request
                if not ahead:
                    return
                done = next(iter(wait(ahead, return_when=FIRST_COMPLETED).done))
                yield ahead.pop(done), done.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End all workers, also those in the middle of a file."""
        with self._lock:
            self._closed = True
        for worker in list(self._running):
            worker.process.kill()  # the thread that waits for its answer drops it
        for _ in range(self.workers):
            with contextlib.suppress(queue.Empty):
                if (idle := self._idle.get_nowait()) is not None:
                    self._drop(idle)
                self._idle.put(None)

    def __enter__(self) -> Decoders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _attempt(self, request: Request) -> Decoded | Failure:
        try:
            return self.decode(request)
        except UserError as error:
            return Failure(str(error))

    def _start(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise UserError("the decoders are closed")
            worker = _Worker(self.limits, self.threads)
            self._running.add(worker)
        return worker

    def _drop(self, worker: _Worker) -> None:
        with self._lock:
            self._running.discard(worker)
        worker.end()


class _Worker:
    """One process and the socket to it."""

    def __init__(self, limits: Limits, threads: int) -> None:
        self.limits = limits
        self.connection, theirs = socket.socketpair()
        code = f"from hoca.media.worker import main; main({theirs.fileno()}, {os.getpid()})"
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the keyboard is for us to deal with
                env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self.connection.settimeout(limits.decode_seconds + GRACE)
        with contextlib.suppress(OSError):  # one that dies at once is noticed when its answer does not come
            send(self.connection, pickle.dumps((limits, threads)))

    def ask(self, request: Request, message: bytes) -> Decoded | str:
        """The worker's answer; UserError, with the cause, if it dies over the request."""
        try:
            send(self.connection, message)
            answer = receive_answer(self.connection)
        except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{shown(request.path)} {self._cause(error)}") from None
        return answer

    def _cause(self, error: Exception) -> str:
        slow = f"takes longer to decode than the limit of {self.limits.decode_seconds:g} s"
        if isinstance(error, TimeoutError):
            return slow
        try:
            status = self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return "made its decoder give a wrong answer: is the file whole?"
        if status == -signal.SIGALRM:
            return slow
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"made its decoder crash ({name}): is the file whole?"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


# One thread for numpy, and few heaps: each reserves address space, which is what a worker's memory is counted by.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
