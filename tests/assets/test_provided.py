"""Weights that users bring: read without running anything, converted once, kept under their hash."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from hoca import assets, features
from hoca.assets import weight_files
from hoca.assets.provided import PROVIDED, _digest, _sources
from hoca.errors import UserError
from hoca.features.backbones import BACKBONES
from hoca.files import sha256_of

from ..conftest import Command

ARRAYS = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, np.float32)}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOCA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def _h5(path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs the extra [h5]")
    with h5py.File(path, "w") as file:
        for name, value in ARRAYS.items():
            file[name] = value


WRITERS: dict[str, Callable[[Path], object]] = {
    "x.safetensors": lambda path: save_file(ARRAYS, path),
    "x.pt": lambda path: torch.save({name: torch.from_numpy(value) for name, value in ARRAYS.items()}, path),
    "x.pth": lambda path: torch.save(
        {"state_dict": {f"module.{name}": torch.from_numpy(value) for name, value in ARRAYS.items()}, "epoch": 3}, path
    ),
    "x.npz": lambda path: np.savez(path, **ARRAYS),  # type: ignore[arg-type]
    "x.h5": _h5,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_its_arrays(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    found = weight_files.read(tmp_path / name)
    assert sorted(found) == sorted(ARRAYS)
    assert all(np.array_equal(found[key], ARRAYS[key]) for key in ARRAYS)


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("ending", [".pt", ".pth", ".npz"])
def test_a_hostile_file_runs_nothing(tmp_path: Path, ending: str) -> None:
    trace, file = tmp_path / "it-ran", tmp_path / f"x{ending}"
    if ending == ".npz":
        np.savez(file, a=np.array([Hostile(trace)], object))
    else:
        torch.save({"a": Hostile(trace)}, file)
    with pytest.raises(UserError, match="x" + ending):
        weight_files.read(file)
    file.write_bytes(pickle.dumps(Hostile(trace)))
    with pytest.raises(UserError, match="x" + ending):
        weight_files.read(file)
    assert not trace.exists()


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt", "x.npz", "x.h5", "x.ckpt"])
@pytest.mark.parametrize("content", [b"", b"no weights", b"PK\x03\x04 cut"])
def test_a_damaged_file_is_named_in_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=name) as error:
        weight_files.read(tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", PROVIDED)
def test_pulling_says_which_file_to_provide_and_where_it_is_published(hoca: Command, name: str) -> None:
    result = hoca("assets", "pull", name)
    assert result.code == 2
    assert PROVIDED[name].file in result.complaint
    assert PROVIDED[name].published in result.complaint
    with pytest.raises(UserError, match="provide"):
        features.specify(**{"image": None, "motion": None, "audio": None, BACKBONES[name].kind: name})


def i3d_file(path: Path, width: int = 400) -> Path:
    from ..networks.test_layouts import deepmind, i3d_arrays

    arrays = i3d_arrays(deepmind)
    for key in [key for key in arrays if "Logits" in key]:
        arrays[key] = arrays[key][..., :width]
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_brought_weights_are_converted_once_and_found_by_their_hash(tmp_path: Path, hoca: Command) -> None:
    file = i3d_file(tmp_path / "rgb_imagenet.npz")
    result = hoca("assets", "pull", "i3d-imagenet", "--from", file)
    assert result.code == 0
    kept = Path(result.out.strip().split(": ", 1)[1])
    assert kept.stem == f"i3d-imagenet-{sha256_of(file)}"
    assert "logits.weight" in load_file(kept)
    assert str(kept) in hoca("assets", "list").out
    assert hoca("assets", "verify").code == 0
    named, given = (
        features.specify(image=None, audio=None, motion=text) for text in ("i3d-imagenet", f"i3d-imagenet={file}")
    )
    assert named == given
    assert named["motion"]["weights"] == sha256_of(file)
    assert features.Extractor(named).backbones["motion"].width == 1024
    named["motion"]["weights"] = "0" * 64
    with pytest.raises(UserError, match=r"SHA-256 000000000000… is not here: provide rgb_imagenet\.pt"):
        features.Extractor(named)


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    save_file(ARRAYS, tmp_path / "other.safetensors")
    for name in ("inception-resnet-v2", "i3d-imagenet"):
        with pytest.raises(UserError, match=f"no checkpoint of {name}"):
            assets.pull(name, tmp_path / "other.safetensors")
    with pytest.raises(UserError, match=r"logits\.weight is \[300, .*i3d-imagenet has \[400"):
        assets.pull("i3d-imagenet", i3d_file(tmp_path / "kinetics-300.npz", width=300))
    with pytest.raises(UserError, match="second file beside it, and 0 are there"):
        assets.pull("vggish", tmp_path / "other.safetensors")
    assert not assets.provided_files("i3d-imagenet")


def test_weights_with_another_file_beside_them_are_others(tmp_path: Path) -> None:
    weights, beside = tmp_path / "vggish.npz", tmp_path / "vggish_pca_params.npz"
    weights.write_bytes(b"weights")
    hashes = set()
    for content in (b"one", b"another"):
        beside.write_bytes(content)
        hashes.add(_digest(_sources(PROVIDED["vggish"], weights)))
    assert len(hashes) == 2
    assert sha256_of(weights) not in hashes


def test_only_backbones_of_users_take_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="efficientnet-lite2 takes no file"):
        features.specify(image=f"efficientnet-lite2={tmp_path / 'x.pt'}")
    with pytest.raises(UserError, match="i3d-kinetics-400 is a backbone for motion: give it as --motion"):
        features.specify(image="i3d-kinetics-400")


def test_weights_in_hdf5_that_lie_in_another_file_are_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs the extra [h5]")
    (tmp_path / "raw").write_bytes(bytes(24))
    _h5(tmp_path / "other.h5")
    for number, link in enumerate(("storage", "link", "loop")):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            if link == "storage":
                file.create_dataset("a", (2, 3), "f4", external=[(str(tmp_path / "raw"), 0, 24)])
            elif link == "link":
                file["a"] = h5py.ExternalLink("other.h5", "/")
            else:
                file["a"] = file["/"]
        with pytest.raises(UserError, match=r"in another file|points elsewhere|without end"):
            weight_files.read(path)
