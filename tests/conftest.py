"""Fixtures shared by all tests."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from hoca.networks.dinov2 import DINOv2

from .training.tiny import write_dataset

ROOT = Path(__file__).resolve().parent.parent

# A shell that runs the tests in the background ignores Ctrl-C, and what the tests start and interrupt would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A change is judged by the same examples every time; whoever runs the tests by hand tries new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """Four thousand tests are a heap that stays: what looks for garbage need not walk through it every time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real captions, clips and features that are not ours to publish; tests that need them skip when absent."""
    folder = Path(os.environ.get("HOCA_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the research data, absent here ({folder}); set HOCA_DATA to its folder")
    return folder


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder dataset that is learned in seconds; tests read it and never change it."""
    return write_dataset(tmp_path_factory.mktemp("tiny"))


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Folders that one process of the test run makes and all of them read: `once(name, make)`."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder, done = root / name, root / f"{name}.done"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(root / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a process that failed on the way
                make(folder)
                done.touch()
        return folder

    return made


@contextmanager
def shallow() -> Iterator[None]:
    """DINOv2 with the first of its twelve blocks alone, for tests that do not look at what its features say."""
    whole = DINOv2.forward

    def forward(self: DINOv2, pictures: Tensor) -> Tensor:
        self.blocks = self.blocks[:1]
        return whole(self, pictures)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DINOv2, "forward", forward)
        yield


@pytest.fixture
def shallow_pictures() -> Iterator[None]:
    with shallow():
        yield


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that a mistake ends in: the last of standard error, after whatever was reported before."""
        assert "Traceback" not in self.err
        return self.err.strip().splitlines()[-1]


Command = Callable[..., Result]


@pytest.fixture
def hoca(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`hoca …` as its entry point runs it, in this process: exit code, standard output, standard error."""
    from hoca.cli import main

    def run(*arguments: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["hoca", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return Result(int(exit.value.code or 0), captured.out, captured.err)

    return run


Device = Callable[[int], Path]


@pytest.fixture
def device(tmp_path: Path) -> Device:
    """A memory device of its own, so that no fault can harm those of the machine."""

    def make(minor: int) -> Path:
        path = tmp_path / f"device-{minor}"
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            open(path, "wb").close()
        except OSError:
            pytest.skip("needs the right to make a device")
        return path

    return make
