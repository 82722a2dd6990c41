"""The checkpoints of a run: which are kept, which one a run resumes from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hoca.checkpoint import SHIPPED, Checkpoint, Checkpoints, locate
from hoca.errors import UserError

CHECKPOINT = Checkpoint({"model.a": torch.arange(6.0)}, {"words": ["x"]})


def test_the_two_newest_are_kept_and_a_damaged_later_one_goes(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (2, 4, 6):
        checkpoints.write(step, CHECKPOINT)
    assert [path.stem for path in checkpoints.newest()] == ["step-00000006", "step-00000004"]
    checkpoints.newest()[0].write_bytes(b"damaged")
    said: list[str] = []
    assert checkpoints.read(said.append) is not None
    assert len(said) == 1
    assert "step-00000006" in said[0]
    checkpoints.write(5, CHECKPOINT)
    assert [path.stem for path in checkpoints.newest()] == ["step-00000005", "step-00000004"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.write(1, CHECKPOINT)
    (checkpoints.folder / ".step-00000002.safetensors.abc.tmp").write_bytes(b"half")
    checkpoints.tidy()
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-00000001.safetensors"]


def test_a_model_is_a_file_a_runs_best_checkpoint_or_the_one_that_is_shipped(tmp_path: Path) -> None:
    assert locate() == locate("default") == SHIPPED
    (tmp_path / "a.safetensors").touch()
    assert locate(tmp_path / "a.safetensors") == tmp_path / "a.safetensors"
    with pytest.raises(UserError, match=r"holds no trained model \(.*best.safetensors is missing\): train one"):
        locate(tmp_path)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.folder.mkdir()
    checkpoints.best.touch()
    assert locate(tmp_path) == checkpoints.best


def test_the_shipped_sibling_goes_by_its_name_unless_a_run_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate("hoca-u") == SHIPPED.with_stem("hoca-u")
    assert locate("hoca-u").is_file()
    (tmp_path / "hoca-u").write_bytes(b"")
    assert locate("hoca-u") == Path("hoca-u")
    with pytest.raises(UserError, match=r"no checkpoint hoca-x: give .* or one of default, hoca-u$"):
        locate("hoca-x")
