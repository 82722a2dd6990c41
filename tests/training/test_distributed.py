"""Several processes do what one does: started for real with torch's launcher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hoca.checkpoint import Checkpoints, read_checkpoint
from hoca.devices import choose_device
from hoca.distributed import Distributed
from hoca.errors import UserError
from hoca.training import train
from hoca.training.loop import Trainer
from hoca.training.own_videos import with_features

from .tiny import changed, column, finish, rows, start, tiny

LAUNCHER = "torch.distributed.run --standalone --nproc-per-node 2 -m hoca"


def test_two_processes_learn_what_one_learns_and_resume_after_a_stop(tiny_data: Path, tmp_path: Path) -> None:
    """Batches of 3 out of 49 captions: the processes get 2 and 1 videos, one gets none of the last batch, and in some
    batches only one of them has sound."""
    settings = {
        "batch_size": 3,
        "captions_per_video": 1,
        "dropout": 0.0,
        "learning_rate": 0.005,
        "gradient_clip": 2.0,
        "workers": 1,
    }
    alone = tiny(tiny_data, tmp_path / "alone", **settings)
    train(alone)
    together = changed(alone, run=str(tmp_path / "together"))
    together.write(tmp_path / "recipe.yaml")
    for more in (("epochs=1",), ("--resume",)):
        code, _, errors = finish(start("train", tmp_path / "recipe.yaml", *more, module=LAUNCHER))
        assert code == 0, errors
    assert "resuming after epoch 1, step 17" in errors
    assert errors.count("the run is in") == 1
    assert len(rows(tmp_path / "together")) == 2
    for name, tolerance in (("step", 0.0), ("loss", 1e-6), ("CIDEr", 1e-3)):
        expected = pytest.approx(column(tmp_path / "alone", name), rel=tolerance)
        assert column(tmp_path / "together", name) == expected
    last, expected = (read_checkpoint(Checkpoints(tmp_path / run).newest()[0]) for run in ("together", "alone"))
    for name, weights in expected.part("model").items():
        # 34 steps of Adam, 0.005 each, in which a gradient of nearly zero takes its direction from rounding.
        torch.testing.assert_close(last.part("model")[name], weights, rtol=1e-3, atol=2e-3)
    assert last.facts["progress"]["step"] == 34


def test_a_run_of_two_processes_resumes_in_one(tiny_data: Path, tmp_path: Path) -> None:
    """The loss of the epoch in progress is that of both; dropout has numbers of its own."""
    recipe = tiny(tiny_data, tmp_path / "run", epochs=1, checkpoint_every=3, dropout=0.0)
    train(recipe)
    checkpoints = Checkpoints(tmp_path / "run")
    before = checkpoints.newest()[1]
    (loss,) = read_checkpoint(before).facts["losses"]
    checkpoint = read_checkpoint(before)
    checkpoint.facts["losses"] = [{"loss": loss["loss"] - 1.0}, {"loss": 1.0}]
    expected = rows(tmp_path / "run")
    checkpoints.newest()[0].unlink()
    checkpoints.write(checkpoint.facts["progress"]["step"], checkpoint)
    train(recipe, resume=True)
    assert float(rows(tmp_path / "run")[0]["loss"]) == pytest.approx(float(expected[0]["loss"]), rel=1e-12)


def test_the_losses_of_a_run_of_one_process_are_those_of_two_together(tiny_data: Path, tmp_path: Path) -> None:
    """Both know all names, which they sum up one by one: a process that lacked one would leave the other waiting."""
    recipe = tiny(tiny_data, tmp_path / "run", model="recnet-global", epochs=1, checkpoint_every=3)
    train(recipe)
    before = read_checkpoint(Checkpoints(tmp_path / "run").newest()[1])
    state = Trainer(recipe, Distributed(0, 1, torch.device("cpu")), resume=True).state
    found = []
    for rank in range(2):
        mine = replace(state, dist=Distributed(rank, 2, torch.device("cpu")))
        mine.restore(before)
        found.append(mine.progress.losses)
    (whole,) = before.facts["losses"]
    assert list(found[0]) == list(found[1]) == list(whole) == ["loss", "words", "reconstruction"]
    assert {name: found[0][name] + found[1][name] for name in whole} == whole


def test_one_process_makes_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="videos is given to several processes"):
        with_features(tiny(tmp_path / "captions.jsonl", tmp_path / "run", videos=str(tmp_path), init_from="default"))
    assert not (tmp_path / "run").exists()


def test_an_unknown_device_is_named() -> None:
    assert choose_device("auto").type in ("cpu", "cuda")
    with pytest.raises(UserError, match="device='gpu' is unknown"):
        choose_device("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="asks for a GPU"):
            choose_device("cuda")
