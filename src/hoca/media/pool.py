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
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType

from hoca.errors import UnreadableVideo, UserError
from hoca.files import in_units, printable
from hoca.media.request import DecodedVideo, DecodeLimits, Failure, Request
from hoca.media.transport import receive, receive_answer, send
from hoca.media.worker import OUT_OF_MEMORY

START = 120.0  # seconds that a busy machine may need to start a worker
ATTEMPTS = 2  # workers that may end over one file
GRACE = 5.0  # seconds after its time limit at which a worker that did not end itself is ended


class Decoders:
    """A pool of decoding processes: `with Decoders(workers=2) as decoders: decoders.decode(request)`.

    Workers start when they are needed. One that crashes, or breaks a limit, costs one clip and is replaced.
    """

    def __init__(self, workers: int | None = None, limits: DecodeLimits | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers = workers or cores
        if self.workers < 1:
            raise UserError(f"{self.workers} decoding workers: give at least 1")
        self.limits = limits or DecodeLimits()
        self.threads = max(1, cores // self.workers)
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        self._running: set[_Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        for _ in range(self.workers):
            self._idle.put(None)

    def start(self) -> Decoders:
        """Start a worker now, without waiting for it, so that it is ready when the first file comes."""
        worker = self._idle.get()
        self._idle.put(worker or self._start())
        return self

    def decode(self, request: Request) -> DecodedVideo:
        """Decode in a worker; `UnreadableVideo` says in one line why not. Threads may call this at once."""
        message = pickle.dumps(request)
        worker = self._idle.get()
        spent = 0.0
        try:
            for attempt in range(1, ATTEMPTS + 1):
                worker = worker or self._start()
                worker.await_start()
                begun = time.monotonic()
                try:
                    return worker.ask(request, message, spent)
                except UnreadableVideo:
                    if not worker.crashed or attempt == ATTEMPTS:
                        raise
                    # Perhaps the fault of an earlier file, or of whoever killed it: try a new worker.
                    self._drop(worker)
                    worker = None
                    spent += time.monotonic() - begun
            raise AssertionError  # the last attempt returns or raises
        except BaseException as error:
            if worker is not None and not (isinstance(error, UnreadableVideo) and worker.ready):
                self._drop(worker)
                worker = None
            raise
        finally:
            self._idle.put(worker)

    def map(self, requests: Iterable[Request]) -> Iterator[tuple[Request, DecodedVideo | Failure]]:
        """Each request with its result, in the order in which they are done.

        No more than two results a worker are decoded ahead of the one that is being used.
        """
        waiting = iter(requests)
        ahead: dict[Future[DecodedVideo | Failure], Request] = {}
        threads = ThreadPoolExecutor(self.workers, "decode")
        try:
            while True:
                while len(ahead) < 2 * self.workers and (request := next(waiting, None)) is not None:
                    ahead[threads.submit(self.attempt, request)] = request
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
            for worker in self._running:
                worker.process.kill()  # the thread that waits for its answer drops it
        idle = []
        with contextlib.suppress(queue.Empty):
            for _ in range(self.workers):
                idle.append(self._idle.get(timeout=2 * GRACE))
        for each in idle:
            if each is not None:
                self._drop(each)
            self._idle.put(None)

    def __enter__(self) -> Decoders:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def attempt(self, request: Request) -> DecodedVideo | Failure:
        """As `decode`, with a failure in place of an exception."""
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

    def __init__(self, limits: DecodeLimits, threads: int) -> None:
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
        self.ready = self.crashed = False
        with contextlib.suppress(OSError):  # one that dies at once is noticed when it does not become ready
            send(self.connection, pickle.dumps((limits, threads)))

    def await_start(self) -> None:
        """Return when the worker takes files."""
        if self.ready:
            return
        self.connection.settimeout(START)
        try:
            receive(self.connection)
        except (EOFError, OSError):
            # The page shows this to visitors: no path of this machine.
            raise UserError(
                "no decoding process can be started: see what `python -c 'import hoca.media.worker'` says"
            ) from None
        self.ready = True

    def ask(self, request: Request, message: bytes, spent: float = 0.0) -> DecodedVideo:
        """What the worker decoded, or `UnreadableVideo`: still `ready` if it refused, not if it is late or `crashed`.

        spent: seconds of the time limit that another worker has taken for the same file.
        """
        self.connection.settimeout(max(self.limits.decode_seconds - spent, 0.0) + GRACE)
        try:
            send(self.connection, message)
            answer = receive_answer(self.connection)
        except (EOFError, OSError, ValueError, KeyError, TypeError) as error:
            self.ready = False
            raise UnreadableVideo(self._cause(request, error)) from None
        if isinstance(answer, str):
            raise UnreadableVideo(answer)
        return answer

    def _cause(self, request: Request, error: Exception) -> str:
        name, limits = printable(request.path), self.limits
        try:
            status = None if isinstance(error, TimeoutError) else self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.crashed = True
            return f"{name} made its decoder give a wrong answer: is the file whole?"
        if status in (None, -signal.SIGALRM):
            return f"{name} takes longer to decode than the limit of {limits.decode_seconds:g} s"
        self.crashed = True
        if status == OUT_OF_MEMORY:
            return f"{name} needs more memory than the limit of {in_units(limits.memory)}"
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"{name} made its decoder crash ({how}): is the file whole?"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


# One thread for numpy, and few heaps: each reserves address space, which is what a worker's memory is counted by.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
