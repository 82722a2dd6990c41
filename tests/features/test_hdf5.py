from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hoca.errors import UserError
from hoca.features import FeatureStore
from hoca.features.hdf5 import export_features
from hoca.features.importing import import_features

from ..conftest import Command

h5py = pytest.importorskip("h5py", reason="needs h5py: pip install 'hoca[h5]'")

MADE = {"image": {"backbone": "light-image", "steps": 4}, "audio": {"backbone": "light-audio", "steps": 3}}
VALUES = {
    "video0": np.arange(12, dtype=np.float32).reshape(4, 3),
    "video1": np.arange(6, dtype=np.float32).reshape(2, 3) + 20,
}


def per_video(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for id, values in VALUES.items():
            file[id] = values


def per_group(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for id, values in VALUES.items():
            file[f"{id}/c3d_features"] = values


def one_array(path: Path, text: object = None) -> None:
    with h5py.File(path, "w") as file:
        features = np.zeros((2, 4, 3), np.float16)
        for row, values in enumerate(VALUES.values()):
            features[row, : len(values)] = values
        file["feats"] = features
        file["vids"] = list(VALUES) if text is None else np.array(list(VALUES), dtype=text)
        file["lens"] = [len(values) for values in VALUES.values()]


@pytest.mark.parametrize("write", [per_video, per_group, one_array, lambda path: one_array(path, "S16")])
def test_the_layouts_of_the_community_are_understood(tmp_path: Path, write: object) -> None:
    write(tmp_path / "c3d.hdf5")  # type: ignore[operator]
    store = FeatureStore(tmp_path / "store")
    assert import_features({"motion": tmp_path / "c3d.hdf5"}, store) == {"imported": 2, "skipped": 0, "failed": 0}
    assert store.ids() == list(VALUES)
    for id, values in VALUES.items():
        np.testing.assert_array_equal(store[id]["motion"], values)
    origin = store.specification["motion"]
    assert origin["file"] == "c3d.hdf5"
    assert len(origin["sha256"]) == 64
    assert import_features({"motion": tmp_path / "c3d.hdf5"}, store) == {"imported": 0, "skipped": 2, "failed": 0}


def test_one_vector_a_video_is_one_step(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["a"], file["b"] = np.ones(5), np.zeros(5)
    store = FeatureStore(tmp_path / "store")
    import_features({"image": tmp_path / "f.h5"}, store)
    assert store["a"]["image"].shape == (1, 5)
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["ids"], file["features"] = ["a", "b"], np.ones((2, 5))
    import_features({"image": tmp_path / "g.h5"}, store)
    assert store["b"]["image"].shape == (1, 5)


def test_a_modality_that_one_file_lacks_is_absent(tmp_path: Path) -> None:
    per_video(tmp_path / "image.h5")
    with h5py.File(tmp_path / "sound.h5", "w") as file:
        file["video1"] = np.ones((2, 2))
    store = FeatureStore(tmp_path / "store")
    import_features({"image": tmp_path / "image.h5", "audio": tmp_path / "sound.h5"}, store)
    assert store.header("video0").absent == {"audio": "not in sound.h5"}
    assert list(store["video1"]) == ["image", "audio"]


@pytest.mark.parametrize("layout", ["datasets", "array"])
def test_exported_features_come_back_the_same(tmp_path: Path, hoca: Command, layout: str) -> None:
    store = FeatureStore(tmp_path / "store")
    for id, values in VALUES.items():
        store.write(id, {"image": values, "audio": values[:1]}, specification=MADE)
    result = hoca("data", "export-features", tmp_path / "store", "--out", tmp_path / "h5", "--layout", layout)
    files = {name: tmp_path / "h5" / f"{name}.h5" for name in MADE}
    assert result.out.split() == [str(path) for path in files.values()]
    arguments = [f"{name}={path}" for name, path in files.items()]
    assert hoca("data", "import-features", *arguments, "--out", tmp_path / "again").code == 0
    again = FeatureStore(tmp_path / "again")
    assert again.specification == MADE
    for id in VALUES:
        for name, values in store[id].items():
            np.testing.assert_array_equal(again[id][name], values)


def test_exporting_an_empty_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no feature files"):
        export_features(FeatureStore(tmp_path), tmp_path / "out")


def no_file(path: Path) -> None:
    pass


def not_hdf5(path: Path) -> None:
    path.write_bytes(b"features")


def empty(path: Path) -> None:
    h5py.File(path, "w").close()


def four_dimensions(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["video0"] = np.zeros((2, 3, 4, 5))


def two_arrays(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["ids"], file["a"], file["b"] = ["x"], np.zeros((1, 2, 3)), np.zeros((1, 2, 3))


def two_in_a_group(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["v/a"], file["v/b"] = np.zeros((2, 3)), np.zeros((2, 3))


def elsewhere(path: Path) -> None:
    per_video(path.with_name("other.h5"))
    with h5py.File(path, "w") as file:
        file["video0"] = h5py.ExternalLink("other.h5", "video0")


def outside_storage(path: Path) -> None:
    path.with_name("raw").write_bytes(bytes(24))
    with h5py.File(path, "w") as file:
        file.create_dataset("video0", (2, 3), "f4", external=[("raw", 0, 24)])


def wrong_lengths(path: Path) -> None:
    one_array(path)
    with h5py.File(path, "r+") as file:
        file["lens"][0] = 9


def twice_the_same(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["ids"], file["a"] = ["x", "x"], np.zeros((2, 2, 3))


def an_escaping_id(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["ids"], file["a"] = ["../x"], np.zeros((1, 2, 3))


def an_endless_video(path: Path) -> None:
    with h5py.File(path, "w") as file:  # no value of it is in the file
        file.create_dataset("video0", (10**12, 1024), "f4", chunks=(16, 1024))


def a_bomb(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("ids", data=["x"])
        file.create_dataset("a", (1, 2, 3), "f4", maxshape=(None, None, None), chunks=(2**10, 2**10, 2**10 - 1))


def endless_ids(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("ids", (10**12,), "S8", chunks=(16,))
        file.create_dataset("a", (10**12, 4), "f4", chunks=(16, 4))


def too_large_numbers(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["video0"] = np.full((2, 3), 1e300)


BROKEN = [
    (an_endless_video, "too large for features"),
    (a_bomb, "too large for features"),
    (endless_ids, "claims 1000000000000 ids"),
    (too_large_numbers, "float16 cannot hold"),
    (no_file, "is not there"),
    (not_hdf5, "not an HDF5 file"),
    (empty, "holds no features"),
    (four_dimensions, r"shape \[2, 3, 4, 5\]"),
    (two_arrays, "2 arrays"),
    (two_in_a_group, "the group v holds 2 datasets"),
    (elsewhere, "video0 points elsewhere"),
    (outside_storage, "lie in another file"),
    (wrong_lengths, "lengths outside 0 to 4"),
    (twice_the_same, "more than once"),
    (an_escaping_id, "cannot be a file name"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("write", "message"),
    BROKEN,
)
def test_a_file_that_cannot_be_imported_is_explained(
    hoca: Command, tmp_path: Path, write: object, message: str
) -> None:
    write(tmp_path / "f.h5")  # type: ignore[operator]
    result = hoca("extract", "--import", f"image={tmp_path / 'f.h5'}", "--out", tmp_path / "store")
    assert result.code == 2
    assert re.search(message, result.err.splitlines()[0])
    assert "Traceback" not in result.err


def test_arguments_that_name_no_modality_are_explained(tmp_path: Path, hoca: Command) -> None:
    result = hoca("data", "import-features", "features.h5", "--out", tmp_path / "store")
    assert result.code == 2
    assert "features.h5" in result.complaint


LOOPS = (2099, 2115, 2152)  # bytes of `one_array` at which the C library never ends


@pytest.mark.parametrize("place", [*LOOPS[:1], 0, 100, 800, 1600, 3000, 4500, 6000])
def test_any_damaged_byte_gives_features_or_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr("hoca.isolated.CPU_SECONDS", 2)
    one_array(tmp_path / "f.h5")
    content = bytearray((tmp_path / "f.h5").read_bytes())
    content[place] ^= 0xFF
    (tmp_path / "f.h5").write_bytes(content)
    said = ""
    try:
        import_features({"image": tmp_path / "f.h5"}, FeatureStore(tmp_path / "store"))
    except UserError as error:
        said = str(error)
    assert not said or (str(tmp_path / "f.h5") in said and "\n" not in said)
    assert said or place not in LOOPS
