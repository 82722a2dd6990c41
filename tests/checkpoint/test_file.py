"""Files of checkpoints: whole or named, and nothing in them is ever unpickled."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hoca.checkpoint import Checkpoint, quantize_int8, read_checkpoint, write_checkpoint
from hoca.errors import UserError

TENSORS = {
    "model.a": torch.arange(6.0).view(2, 3),
    "model.b": torch.tensor(7),
    "other.a": torch.tensor([True, False]),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "empty": torch.zeros(0, 4),
}
CHECKPOINT = Checkpoint(TENSORS, {"words": ["café", "x"], "number": 0.1})


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "new" / "a.safetensors", CHECKPOINT)
    found = read_checkpoint(tmp_path / "new" / "a.safetensors")
    assert found.facts == CHECKPOINT.facts
    assert found.tensors.keys() == TENSORS.keys()
    assert all(torch.equal(found.tensors[name], TENSORS[name]) for name in TENSORS)
    assert list(found.part("model")) == ["a", "b"]
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "a.safetensors"]


def test_matrices_in_int8_are_near_and_small(tmp_path: Path) -> None:
    weights = {
        "a": torch.randn(50, 400) * torch.logspace(-6, 6, 50)[:, None],
        "b": torch.randn(7),
        "c": torch.zeros(2, 3),
        "d": torch.zeros(0, 0),
    }
    path = tmp_path / "a.safetensors"
    write_checkpoint(path, Checkpoint(quantize_int8(weights), {}))
    assert path.stat().st_size < 1.2 * sum(value.numel() for value in weights.values())
    found = read_checkpoint(path).tensors
    assert found.keys() == weights.keys()
    step = weights["a"].abs().amax(1, keepdim=True) / 127
    assert bool(((found["a"] - weights["a"]).abs() <= 0.501 * step).all())
    assert torch.equal(found["b"], weights["b"].half())
    assert torch.equal(found["c"], weights["c"])
    assert found["d"].shape == (0, 0)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "whole.safetensors"
    write_checkpoint(path, CHECKPOINT)
    return path


@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_any_flipped_byte_is_noticed(written: Path, place: float, flip: int) -> None:
    content = bytearray(written.read_bytes())
    content[int(place * len(content))] ^= flip
    damaged = written.with_name("damaged.safetensors")
    damaged.write_bytes(content)
    try:
        found = read_checkpoint(damaged)
    except UserError as error:
        complaint = str(error)
    else:  # a byte that means nothing, such as a space of the header's padding
        assert found.facts == CHECKPOINT.facts
        assert all(torch.equal(found.tensors[name], TENSORS[name]) for name in TENSORS)
        return
    assert str(damaged) in complaint
    assert "\n" not in complaint


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_noticed(written: Path, share: float) -> None:
    content = written.read_bytes()
    damaged = written.with_name("truncated.safetensors")
    damaged.write_bytes(content[: int(share * len(content))])
    with pytest.raises(UserError, match=r"truncated.safetensors is damaged or no checkpoint"):
        read_checkpoint(damaged)


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("/nonexistent/trap"),)  # type: ignore[return-value]


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "trap.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(UserError, match="damaged or no checkpoint"):
        read_checkpoint(tmp_path / "trap.safetensors")
    torch.save({"model": torch.ones(2)}, tmp_path / "torch.pt")
    with pytest.raises(UserError, match="damaged or no checkpoint"):
        read_checkpoint(tmp_path / "torch.pt")


def test_other_safetensors_files_are_told_apart(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2)}, tmp_path / "features.safetensors")
    with pytest.raises(UserError, match="no checkpoint of hoca"):
        read_checkpoint(tmp_path / "features.safetensors")
    with pytest.raises(UserError, match="there is no run and no checkpoint"):
        read_checkpoint(tmp_path / "nosuch.safetensors")
