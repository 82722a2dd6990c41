"""Folders of numpy arrays become a feature store; a hostile array costs itself and one line."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hoca.features import FeatureStore

from ..conftest import Command

VALUES = np.arange(12, dtype=np.float32).reshape(4, 3)


def test_folders_of_arrays_become_a_store(hoca: Command, tmp_path: Path) -> None:
    image, audio = tmp_path / "image", tmp_path / "audio"
    image.mkdir()
    audio.mkdir()
    np.save(image / "a.npy", VALUES)
    np.save(image / "b.npy", np.asfortranarray(VALUES + 1).astype(np.float64))
    np.savez_compressed(image / "c.npz", features=VALUES + 2)
    np.save(audio / "a.npy", np.ones(5, np.float16))  # one vector a video
    (image / "notes.txt").write_text("not features")
    command = ("extract", "--import", f"image={image}", "--import", f"audio={audio}", "--out", tmp_path / "store")
    assert hoca(*command).code == 0
    store = FeatureStore(tmp_path / "store")
    assert store.ids() == ["a", "b", "c"]
    for place, id in enumerate("abc"):
        np.testing.assert_array_equal(store[id]["image"], VALUES + place)
    assert store["a"]["audio"].shape == (1, 5)
    assert store.header("b").absent == {"audio": "not in audio"}
    assert store.specification["image"]["file"] == "image"
    again = hoca(*command)
    assert "0 imported, 3 skipped, 0 failed" in again.err
    np.save(image / "a.npy", VALUES * 2)  # as large as before: what it holds counts
    assert "3 imported" in hoca("data", "import-features", f"image={image}", f"audio={audio}", *command[-2:]).err
    np.testing.assert_array_equal(store["a"]["image"], VALUES * 2)


def header(shape: object, descr: str = "<f4") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def objects(path: Path) -> None:
    np.save(path, np.array([print], dtype=object), allow_pickle=True)


def a_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(VALUES))


def claims_too_much(path: Path) -> None:
    path.write_bytes(header((10**12, 1024)) + bytes(64))


def cut_off(path: Path) -> None:
    path.write_bytes(header((4, 3)) + bytes(40))


def negative(path: Path) -> None:
    path.write_bytes(header((-4, 3)) + bytes(48))


def deep(path: Path) -> None:
    path.write_bytes(header((4, 3)).replace(b"(4, 3)", b"((((((") + bytes(48))


def not_finite(path: Path) -> None:
    np.save(path, np.full((2, 3), np.nan))


def four_dimensions(path: Path) -> None:
    np.save(path, np.zeros((2, 3, 4, 5)))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_text(path: Path) -> None:
    np.save(path, np.array(["a dog"]))


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path.with_suffix(".npz"), "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", header((1 << 20, 1 << 10)) + bytes(1 << 20))


def two_arrays(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), a=VALUES, b=VALUES)


def no_archive(path: Path) -> None:
    path.with_suffix(".npz").write_bytes(b"PK no archive")


HOSTILE: dict[Callable[[Path], None], str] = {
    objects: "expected numbers: nothing of it was run",
    a_pickle: "not a readable numpy file",
    claims_too_much: "too large",
    cut_off: "cut off",
    negative: "cut off",
    deep: "not a readable numpy file",
    not_finite: "float16 cannot hold",
    four_dimensions: "[2, 3, 4, 5]",
    empty: "not a readable numpy file",
    a_pipe: "is not a file",
    a_text: "expected numbers",
    bomb: "too large",
    two_arrays: "holds 2 arrays",
    no_archive: "not a readable numpy file",
}


def test_a_hostile_array_costs_itself_and_one_line(hoca: Command, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    np.save(folder / "good.npy", VALUES)
    for write in HOSTILE:
        write(folder / f"bad-{write.__name__}.npy")
    result = hoca("extract", "--import", f"image={folder}", "--out", tmp_path / "store")
    assert result.code == 1
    assert FeatureStore(tmp_path / "store").ids() == ["good"]
    *lines, last = result.err.splitlines()
    assert len(lines) == len(HOSTILE)
    for write, message in HOSTILE.items():
        (line,) = (line for line in lines if f"bad-{write.__name__}" in line)
        assert message in line
    assert last.endswith(f"1 imported, 0 skipped, {len(HOSTILE)} failed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--import", "image"], "name each modality once"),
        (["--import", "image=EMPTY", "--import", "image=EMPTY"], "name each modality once"),
        (["--import", "image=EMPTY"], "holds no features"),
        (["--import", "a.b=EMPTY"], "cannot name a modality"),
        (["clip.mp4", "--import", "image=EMPTY"], "leave clip.mp4 out"),
        ([], "name videos, or features of others with --import"),
    ],
)
def test_mistakes_are_told_in_one_line(hoca: Command, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    given = [argument.replace("EMPTY", str(tmp_path / "empty")) for argument in arguments]
    result = hoca("extract", *given, "--out", tmp_path / "store")
    assert result.code == 2
    assert message in result.complaint
