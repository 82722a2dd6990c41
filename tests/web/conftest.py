"""A server as people start it, with a small model, in a process and a temporary folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..browser import chromium
from ..conftest import Once
from ..explain.trained import fit, make_unsure, prepare

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SECONDS, MEGABYTES = 5, 1  # the longest and the largest upload


@dataclass(frozen=True)
class Server:
    address: str
    folder: Path  # where temporary files go
    process: subprocess.Popen[str]

    @property
    def working_folder(self) -> Path:
        """What the paths of uploads are relative to."""
        return next(self.folder.glob("hoca-*"))

    def uploads(self) -> list[str]:
        """Names of the uploads that are still there."""
        return [path.name for path in self.folder.glob("hoca-*/uploads/*/*")]

    def parts(self) -> list[Path]:
        """What uploads under way, or broken off, have written."""
        return list(self.folder.glob("hoca-*/uploads/tmp*"))


@contextmanager
def started(folder: Path, *models: Path, options: Sequence[str] = ()) -> Iterator[Server]:
    pytest.importorskip("gradio", reason="needs Gradio: pip install 'hoca[web]'")
    options = ["--port", "0", "--seconds", str(SECONDS), "--megabytes", str(MEGABYTES), *options]
    for model in models:
        options += ["--model", str(model)]
    environment = os.environ | {"TMPDIR": str(folder), "OMP_NUM_THREADS": "1", "HOCA_HOME": str(folder / "home")}
    log = folder / "log"
    with open(log, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "hoca", "serve", *options], stdout=file, stderr=file, env=environment, text=True
        )
    try:
        address = None
        while address is None:
            assert process.poll() is None, log.read_text()
            found = re.search(r"hoca is at (\S+);", log.read_text())
            address = found[1] if found else None
            time.sleep(0.1)
        yield Server(address, folder, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="session")
def data(once: Once) -> Path:
    return once("clips", prepare)


@pytest.fixture(scope="session")
def run(data: Path, once: Once, tmp_path_factory: pytest.TempPathFactory) -> Path:
    trained = once("bound", partial(fit, data))  # which the tests of explanations read as it is
    return make_unsure(Path(shutil.copytree(trained, tmp_path_factory.mktemp("served") / "bound")))


@pytest.fixture(scope="session")
def server(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with started(folder, run) as running:
        yield running
    assert running.process.returncode == 0
    assert not list(folder.glob("hoca-*")), "temporary files are left when it ends"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened
