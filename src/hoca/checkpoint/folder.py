"""Where checkpoints are: those of a run's folder, and the model that hoca ships."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from hoca.checkpoint.file import Checkpoint, read_checkpoint, write_checkpoint
from hoca.errors import BadCheckpoint, UserError

SHIPPED = Path(__file__).resolve().parent.parent / "shipped" / "default.safetensors"
NAMES = tuple(sorted(path.stem for path in SHIPPED.parent.glob("*.safetensors")))  # of the models that hoca ships


class Checkpoints:
    """The checkpoints of one run: the two newest to resume from, and the best to caption with."""

    KEPT = 2

    def __init__(self, run: Path) -> None:
        self.folder = run / "checkpoint"
        self.best = self.folder / "best.safetensors"

    def newest(self) -> list[Path]:
        """The checkpoints to resume from, newest first."""
        found = [path for path in self.folder.glob("step-*.safetensors") if re.fullmatch(r"step-\d+", path.stem)]
        return sorted(found, key=_step, reverse=True)

    def write(self, step: int, checkpoint: Checkpoint) -> None:
        write_checkpoint(self.folder / f"step-{step:08d}.safetensors", checkpoint)
        for later in [path for path in self.newest() if _step(path) > step]:  # damaged: this run went on before it
            later.unlink()
        for old in self.newest()[self.KEPT :]:
            old.unlink()

    def read(self, say: Callable[[str], None] | None) -> Checkpoint | None:
        """The newest checkpoint that is whole, None where there is none yet.

        A damaged one is named through `say` and the one before it is taken. If all are damaged, that is an error:
        starting anew would throw a run away without asking.
        """
        paths = self.newest()
        for path in paths:
            try:
                return read_checkpoint(path)
            except UserError as error:
                if say is not None and path != paths[-1]:
                    say(f"{error}; resuming from the one before it")
        if paths:
            names = " and ".join(str(path) for path in paths)
            raise BadCheckpoint(
                f"{names}: no whole checkpoint to resume from: delete them to start anew, or choose another run="
            )
        return None

    def tidy(self) -> None:
        """Remove what a process that was killed while writing left behind."""
        for leftover in [*self.folder.glob(".*.tmp"), *self.folder.parent.glob(".*.tmp")]:
            leftover.unlink(missing_ok=True)


def locate(model: Path | str | None = None) -> Path:
    """The file of a model: the best checkpoint of a run folder, a checkpoint, or a model that hoca ships, by name."""
    if model is None or str(model) == SHIPPED.stem:
        return SHIPPED
    path = Path(model)
    if not path.exists():
        if str(model) in NAMES:
            return SHIPPED.with_stem(path.name)
        raise BadCheckpoint(
            f"there is no run and no checkpoint {path}: give a run folder, a checkpoint, or one of {', '.join(NAMES)}"
        )
    if not path.is_dir():
        return path
    best = Checkpoints(path).best
    if not best.is_file():
        raise BadCheckpoint(f"{path} holds no trained model ({best} is missing): train one, or give another folder")
    return best


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))
