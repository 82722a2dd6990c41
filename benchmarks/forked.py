"""Commands of hoca in processes of their own that start at once: forked from one that has imported everything.

They run what `hoca …` runs, with files of their own for standard output and standard error, and can be killed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path


def ready() -> None:
    """Import what commands need. A process that forks must have no threads, and must not have started CUDA."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    import hoca.cli
    import hoca.training  # noqa: F401


def gpu() -> bool:
    """Whether there is a GPU, asked without starting CUDA."""
    import torch

    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    return torch.cuda.is_available()


def start(
    command: tuple[object, ...],
    work: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    first: Callable[[], object] = lambda: None,
) -> int:
    """Run `hoca command` in the folder `work`, after `first`, in a session of its own; returns the process id."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    with contextlib.suppress(BaseException):
        _become(command, work, log, environment or {}, first)
    os._exit(99)


def _become(
    command: tuple[object, ...], work: Path, log: Path, environment: Mapping[str, str], first: Callable[[], object]
) -> None:
    os.setsid()
    os.chdir(work)
    streams = [os.open(os.devnull, os.O_RDONLY)]
    streams += [os.open(f"{log}.{name}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666) for name in ("out", "err")]
    for wanted, file in enumerate(streams):
        os.dup2(file, wanted)
    os.environ |= environment
    tempfile.tempdir = None
    first()
    sys.argv = ["hoca", *map(str, command)]
    code = 98
    try:
        from hoca.cli import main

        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)
