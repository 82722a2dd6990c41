"""A run that was stopped, whatever stopped it, continues as if nothing had happened."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hoca.checkpoint import Checkpoint, Checkpoints, read_checkpoint, write_checkpoint
from hoca.errors import UserError
from hoca.models import names
from hoca.training import Recipe, read_recipe, train

from ..conftest import Command
from .tiny import changed, column, finish, rows, start, tiny, tiny_file, write_captions, write_dataset

Change = Callable[[Checkpoint], object]
Moment = Callable[[Path], bool]
FEW = {"train": 8, "validation": 2}


def assert_same_run(run: Path, other: Path) -> None:
    """The same bits in the best and in the last checkpoint, the same table."""
    for path in (Checkpoints(run).best, Checkpoints(run).newest()[0]):
        mine, theirs = read_checkpoint(path), read_checkpoint(other / "checkpoint" / path.name)
        assert mine.tensors.keys() == theirs.tensors.keys()
        for name, tensor in mine.tensors.items():
            assert torch.equal(tensor, theirs.tensors[name]), name
    assert rows(run) == rows(other)


def test_killed_at_any_moment_and_resumed_it_ends_with_the_same_bits(tiny_data: Path, tmp_path: Path) -> None:
    settings = {
        **{"batch_size": 4, "captions_per_video": 1, "epochs": 4, "checkpoint_every": 2},
        **{"ema_decay": 0.8, "gradient_clip": 1.0},
    }
    whole = tmp_path / "whole"
    train(tiny(tiny_data, whole, **settings))
    run = tmp_path / "killed"
    recipe = tiny_file(tmp_path, tiny_data, run, **settings)
    chance = random.Random(7)

    steps = [chance.randrange(first, first + 10) for first in (3, 20)]  # of 52: far from the end
    stopped("train", recipe, when=step_reached(steps[0], chance), by=signal.SIGKILL, run=run)
    stopped("train", recipe, "--resume", "workers=2", when=being_written, by=signal.SIGKILL, run=run)
    interrupted = stopped("train", recipe, "--resume", when=step_reached(steps[1], chance), by=signal.SIGINT, run=run)
    assert interrupted.returncode == 130
    assert "Traceback" not in interrupted.stderr
    assert interrupted.stderr.splitlines()[-1] == "hoca: interrupted; resume it with the same command and --resume"
    train(read_recipe(recipe, ["workers=2"]), resume=True)
    assert_same_run(run, whole)
    assert not [path for path in run.rglob("*") if path.name.endswith(".tmp")]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough for two steps an epoch."""
    return write_dataset(tmp_path_factory.mktemp("few"), counts=FEW)


@pytest.mark.parametrize("model", [name for name in names() if "hoca" not in name])
def test_every_captioner_resumes_with_what_was_fitted_before_training(few: Path, tmp_path: Path, model: str) -> None:
    whole, parts = (tiny(few, tmp_path / name, model=model, epochs=2) for name in ("whole", "parts"))
    train(whole)
    train(changed(parts, epochs=1))
    train(parts, resume=True)
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


def step_reached(step: int, chance: random.Random) -> Moment:
    """A little after the run has got to `step`."""
    pause = chance.uniform(0, 0.05)

    def reached(run: Path) -> bool:
        newest = Checkpoints(run).newest()
        if not newest or int(newest[0].stem.removeprefix("step-")) < step:
            return False
        time.sleep(pause)
        return True

    return reached


def being_written(run: Path) -> bool:
    """While a checkpoint has its temporary name."""
    return any((run / "checkpoint").glob(".step-*.tmp"))


def stopped(*arguments: str | Path, when: Moment, by: signal.Signals, run: Path) -> subprocess.CompletedProcess[str]:
    for leftover in (run / "checkpoint").glob(".*.tmp"):
        leftover.unlink()  # of the kill before
    process = start(*arguments)
    deadline = time.monotonic() + 120
    while process.poll() is None and not when(run):
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    assert process.poll() is None, "the run was over before the moment came"
    os.killpg(process.pid, by)
    code, out, err = finish(process)
    return subprocess.CompletedProcess(process.args, code, out, err)


@pytest.fixture(scope="module")
def begun(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Recipe]:
    """A run of one epoch out of two, copied for each test."""
    folder = tmp_path_factory.mktemp("begun")
    first = tiny(tiny_data, folder / "first", epochs=1, checkpoint_every=2)
    train(first)
    train(changed(first, epochs=2, run=str(folder / "whole")))
    count = iter(range(100))

    def copy() -> Recipe:
        run = folder / f"copy-{next(count)}"
        shutil.copytree(first.run, run)
        return changed(first, epochs=2, run=str(run))

    return copy


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    begun: Callable[[], Recipe], capsys: pytest.CaptureFixture[str]
) -> None:
    for damage in (truncate, flip):
        recipe = begun()
        newest = Checkpoints(Path(recipe.run)).newest()[0]
        damage(newest)
        capsys.readouterr()
        train(recipe, resume=True)
        first, second = capsys.readouterr().err.splitlines()[:2]
        assert str(newest) in first
        assert "damaged" in first
        assert "step 2" in second
        assert_same_run(Path(recipe.run), Path(recipe.run).parent / "whole")


def test_a_run_whose_checkpoints_are_all_damaged_is_not_thrown_away(begun: Callable[[], Recipe]) -> None:
    recipe = begun()
    newest = Checkpoints(Path(recipe.run)).newest()
    assert len(newest) == 2
    for path in newest:
        truncate(path)
    with pytest.raises(UserError, match="delete them to start anew") as error:
        train(recipe, resume=True)
    assert all(str(path) in str(error.value) for path in newest)


def truncate(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-len(content) // 4] ^= 4
    path.write_bytes(content)


def test_resume_without_a_checkpoint_starts_from_the_beginning(
    tiny_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny(tiny_data, tmp_path / "run", epochs=1), resume=True)
    assert "no checkpoint yet: starting from the beginning" in capsys.readouterr().err
    assert len(rows(tmp_path / "run")) == 1


def test_a_finished_run_stays_as_it_is_and_gets_back_what_was_lost(begun: Callable[[], Recipe]) -> None:
    recipe = changed(begun(), epochs=1)
    run = Path(recipe.run)
    table = (run / "metrics.csv").read_bytes()
    weights = Checkpoints(run).best.read_bytes()
    (run / "metrics.csv").unlink()
    (run / "curves.png").unlink()
    train(recipe, resume=True)
    assert (run / "metrics.csv").read_bytes() == table
    assert (run / "curves.png").is_file()
    assert Checkpoints(run).best.read_bytes() == weights


def test_a_run_is_not_overwritten_and_not_continued_with_another_recipe(begun: Callable[[], Recipe]) -> None:
    recipe = begun()
    with pytest.raises(UserError, match="add --resume"):
        train(recipe)
    with pytest.raises(UserError, match=r"begun with train.learning_rate=0.02, now it is 0.5"):
        train(changed(recipe, learning_rate=0.5), resume=True)
    with pytest.raises(UserError, match=r"has hidden=8; the recipe, .* now ask for 9"):
        train(changed(recipe, hidden=9), resume=True)
    with pytest.raises(UserError, match="begun with model=l-hoca-ubt, now it is hoca-u: choose another run="):
        train(changed(recipe, model="hoca-u"), resume=True)


def test_a_run_is_not_continued_on_other_captions_or_features(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", counts=FEW)
    recipe = tiny(data, tmp_path / "run", epochs=1)
    train(recipe)
    write_dataset(data, {"image": 7, "motion": 5, "audio": 4}, FEW)
    with pytest.raises(UserError, match=r"has modalities=.*'image': 6.* ask for .*'image': 7"):
        train(changed(recipe, epochs=2), resume=True)
    ids = [(split, f"{split}-{number:02d}") for split, count in FEW.items() for number in range(count)]
    write_captions(data, [{"id": id, "split": split, "captions": ["other words"]} for split, id in ids])
    with pytest.raises(UserError, match="another vocabulary"):
        train(changed(recipe, epochs=2), resume=True)


def test_a_run_is_not_continued_with_other_vectors(tiny_data: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("red 1 2 3\nblue 4 5 6\n")
    recipe = tiny(tiny_data, tmp_path / "run", epochs=1, word_vectors=str(vectors))
    train(recipe)
    vectors.write_text("red 1 2\nblue 4 5\n")
    with pytest.raises(UserError, match=r"has embedding=3; .* ask for 2"):
        train(changed(recipe, epochs=2), resume=True)


def test_the_best_checkpoint_is_not_one_to_resume(begun: Callable[[], Recipe]) -> None:
    recipe = begun()
    checkpoints = Checkpoints(Path(recipe.run))
    shutil.copy(checkpoints.best, checkpoints.newest()[0])
    with pytest.raises(UserError, match="not one to resume"):
        train(recipe, resume=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_run_on_a_gpu_resumes_where_it_was(tiny_data: Path, tmp_path: Path) -> None:
    recipe = tiny(tiny_data, tmp_path / "whole", device="cuda", ema_decay=0.9, precision="bf16")
    train(recipe)
    stopped = replace(recipe, run=str(tmp_path / "stopped"))
    train(changed(stopped, epochs=1))
    train(stopped, resume=True)
    assert column(tmp_path / "stopped", "loss") == pytest.approx(column(tmp_path / "whole", "loss"), rel=1e-2)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.tensors.pop("optimizer.0.exp_avg"),
        lambda found: found.tensors.pop("random.0.cpu"),
        lambda found: found.tensors.update({"optimizer.x.y.z": torch.ones(1)}),
        lambda found: found.tensors.update({"model.extra": torch.ones(1)}),
        lambda found: found.facts.pop("losses"),
        lambda found: found.facts.update(losses=[]),
        lambda found: found.facts.update(recipe=[]),
        lambda found: found.facts.update(progress=[]),
        lambda found: found.facts["progress"].update(step="two", epoch=None),
    ],
    ids=lambda change: "",
)
def test_a_checkpoint_that_was_edited_is_not_resumed(begun: Callable[[], Recipe], change: Change) -> None:
    recipe = begun()
    newest = Checkpoints(Path(recipe.run)).newest()[0]
    found = read_checkpoint(newest)
    change(found)
    write_checkpoint(newest, found)
    with pytest.raises(UserError, match=r"edited or mixed up|was edited|not one to resume"):
        train(recipe, resume=True)


def test_two_trainings_in_one_folder_are_not_possible(hoca: Command, tiny_data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    recipe = tiny_file(tmp_path, tiny_data, run, epochs=2000, workers=1)
    first = start("train", recipe)
    try:
        wait_until(lambda: bool(Checkpoints(run).newest()))
        for again in ((), ("--resume",)):
            refused = hoca("train", recipe, *again)
            assert refused.code == 2
            assert f"{run} is in use by process {first.pid} on {socket.gethostname()}: wait" in refused.err
            assert len(refused.err.splitlines()) == 1
    finally:
        first.kill()  # its worker process is left alone, and lets go of the folder all the same
        first.wait()
    train(tiny(tiny_data, run, epochs=1, workers=1), resume=True)
    with suppress(ProcessLookupError):
        os.killpg(first.pid, signal.SIGKILL)


def wait_until(reached: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.05)
