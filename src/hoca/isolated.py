"""A reader of a file that may be hostile, in a process of its own: a C library that loops or crashes ends there."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from hoca.errors import UserError
from hoca.files import printable

CPU_SECONDS = 30  # that one answer may take; a slow disk costs none
MEMORY = 1 << 30  # bytes beyond what the idle process takes
Answers = Callable[..., Any]


class Isolated:
    """`with Isolated("package.module:function", path) as ask: ask("names")`.

    In the other process `function(path)` gives a function that answers questions: both are JSON, and an answer may be
    an array of numbers. What it raises as a `UserError` is raised here.
    """

    def __init__(self, reader: str, path: Path) -> None:
        self.path = path
        code = f"from hoca.isolated import main; main({reader!r}, {str(path)!r}, {CPU_SECONDS}, {MEMORY})"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is for us to deal with
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def __call__(self, *question: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
            return _receive(self.process.stdout)
        except (EOFError, BrokenPipeError):
            raise self._cause() from None

    def _cause(self) -> UserError:
        status = self.process.wait()
        if status == -signal.SIGXCPU:
            return UserError(f"{printable(self.path)} keeps its reader busy without end: is the file damaged?")
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return UserError(f"{printable(self.path)} made its reader crash ({how}): is the file damaged?")

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()


def main(reader: str, path: str, cpu_seconds: int, memory: int) -> None:
    """Answer the questions on standard input until it is closed."""
    source, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    module, _, name = reader.partition(":")
    function = getattr(importlib.import_module(module), name)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # there are systems that have no such limit
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    answers: Answers | None = None
    for line in source:
        used_seconds = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used_seconds) + cpu_seconds, resource.RLIM_INFINITY))
        try:
            if answers is None:
                answers = function(Path(path))
            _send(out, answers(*json.loads(line)))
        except UserError as error:
            _send(out, {"error": str(error)})
        except MemoryError:
            _send(out, {"error": f"{printable(path)} needs more memory than the limit of its reader: is it damaged?"})


def _send(out: IO[bytes], answer: Any) -> None:
    array = isinstance(answer, np.ndarray)
    told = {"dtype": answer.dtype.str, "shape": answer.shape} if array else answer
    out.write(json.dumps([array, told]).encode() + b"\n")
    if array:
        out.write(np.ascontiguousarray(answer).data)
    out.flush()


def _receive(source: IO[bytes]) -> Any:
    line = source.readline()
    if not line:
        raise EOFError
    array, told = json.loads(line)
    if not array:
        if isinstance(told, dict) and "error" in told:
            raise UserError(told["error"])
        return told
    values = np.empty(told["shape"], told["dtype"])
    content: Any = source
    if values.size and content.readinto(values.data.cast("B")) != values.nbytes:
        raise EOFError
    return values
