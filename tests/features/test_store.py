from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save_file

from hoca.errors import UserError
from hoca.features.store import FORMAT, FeatureStore

SPECIFICATION = {"image": {"backbone": "light-image", "steps": 4}, "audio": {"backbone": "light-audio", "steps": 3}}


def features(width: int = 5) -> dict[str, np.ndarray]:
    return {"audio": np.ones((3, 2), np.float32), "image": np.full((4, width), 0.5, np.float32)}


def test_a_video_comes_back_as_it_was_written(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path / "features")
    store.write("b", features(), specification=SPECIFICATION, duration=2.5)
    store.write(
        "a", {"image": features()["image"]}, specification=SPECIFICATION, absent={"audio": "no sound"}, duration=1.0
    )
    assert store.ids() == ["a", "b"]
    assert "a" in store
    assert "c" not in store
    assert list(store["b"]) == ["image", "audio"]
    assert store["b"]["image"].dtype == np.float32
    np.testing.assert_array_equal(store["b"]["image"], features()["image"])
    assert list(store["a"]) == ["image"]
    assert store.header("a").absent == {"audio": "no sound"}
    assert store.header("b").duration == 2.5
    assert list(store.widths.items()) == [("image", 5), ("audio", 2)]
    assert store.steps == {"image": 4, "audio": 3}
    assert store.specification == SPECIFICATION


@settings(max_examples=25, deadline=None)
@given(
    arrays.arrays(
        np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-1e4, 1e4, width=32)
    )
)
def test_values_are_kept_to_half_precision(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray) -> None:
    store = FeatureStore(tmp_path_factory.mktemp("store"))
    store.write("v", {"image": values}, specification={})
    np.testing.assert_array_equal(store["v"]["image"], values.astype(np.float16).astype(np.float32))


def test_other_modalities_follow_in_the_order_in_which_they_were_stored(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    one = np.zeros((1, 1))
    store.write("v", {"zoom": one, "depth": one, "audio": one, "image": one}, specification={})
    assert list(store.widths) == list(store["v"]) == ["image", "audio", "zoom", "depth"]


def test_a_wrong_width_names_file_found_and_expected(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    store.write("a", features(width=7), specification=SPECIFICATION)
    for id in "bcd":
        store.write(id, features(), specification=SPECIFICATION)
    with pytest.raises(UserError, match=r"a\.safetensors: image features are 7 wide, expected 5"):
        _ = store.widths


def test_a_mixture_of_specifications_is_named(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    store.write("a", features(), specification=SPECIFICATION)
    store.write("b", features(), specification=SPECIFICATION)
    store.write("c", features(), specification={"image": {"backbone": "other"}})
    with pytest.raises(UserError, match=r"c\.safetensors was made with .*other"):
        _ = store.specification


@pytest.mark.parametrize("content", [b"", b"not features", b"\xff" * 64])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    store = FeatureStore(tmp_path)
    (tmp_path / "bad.safetensors").write_bytes(content)
    with pytest.raises(UserError, match=r"bad\.safetensors"):
        _ = store["bad"]


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    store.write("cut", features(), specification=SPECIFICATION)
    whole = (tmp_path / "cut.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-10])
    with pytest.raises(UserError, match=r"cut\.safetensors"):
        _ = store.widths


@pytest.mark.parametrize("metadata", [{FORMAT: '{"modalities": ["image"]}'}, {FORMAT: "{"}, {FORMAT: "[]"}, {}])
def test_a_safetensors_file_of_another_kind_is_named(tmp_path: Path, metadata: dict[str, str]) -> None:
    save_file({"weight": np.zeros(3, np.float16)}, tmp_path / "other.safetensors", metadata=metadata)
    with pytest.raises(UserError, match=r"other\.safetensors"):
        _ = FeatureStore(tmp_path)["other"]


def test_missing_video_and_empty_store_say_what_to_do(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path / "nothing")
    assert store.ids() == []
    with pytest.raises(UserError, match="no features of video v"):
        _ = store["v"]
    with pytest.raises(UserError, match="no feature files"):
        _ = store.widths


@pytest.mark.parametrize("id", ["", "../escape", "a/b", ".hidden"])
def test_an_id_that_is_no_file_name_is_refused(tmp_path: Path, id: str) -> None:
    with pytest.raises(UserError, match="cannot be a file name"):
        FeatureStore(tmp_path).write(id, features(), specification={})


@pytest.mark.parametrize("values", [np.zeros((0, 3)), np.zeros(3), np.full((1, 1), np.nan), np.full((1, 1), 1e6)])
def test_features_that_cannot_be_stored_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    store = FeatureStore(tmp_path)
    with pytest.raises(UserError, match="image features of v"):
        store.write("v", {"image": values}, specification={})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("duration", [-1.0, float("nan"), float("inf")])
def test_a_duration_that_no_video_has_is_refused(tmp_path: Path, duration: float) -> None:
    with pytest.raises(UserError, match=r"features of v: a video of .* s; give its duration, or none"):
        FeatureStore(tmp_path).write("v", features(), specification=SPECIFICATION, duration=duration)
    assert not list(tmp_path.iterdir())


def test_features_are_current_until_something_about_them_changes(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    store.write("v", features(), specification=SPECIFICATION, absent={"motion": "still"}, size=1000)
    header = store.current("v", SPECIFICATION, 1000)
    assert header is not None
    assert header.absent == {"motion": "still"}
    assert store.current("v", SPECIFICATION) == header
    assert store.current("v", SPECIFICATION, 1001) is None
    assert store.current("v", {**SPECIFICATION, "audio": {"backbone": "other"}}, 1000) is None
    assert store.current("w", SPECIFICATION) is None
    store.path("v").write_bytes(store.path("v").read_bytes()[:-1])
    assert store.current("v", SPECIFICATION, 1000) is None


def test_what_killed_writers_left_is_swept_away_but_not_what_is_being_written(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    store.write("v", features(), specification=SPECIFICATION)
    old, young = tmp_path / ".v.safetensors.abc.tmp", tmp_path / ".w.safetensors.def.tmp"
    for left in (old, young):
        left.touch()
    os.utime(old, (0, 0))
    store.sweep()
    assert sorted(tmp_path.iterdir()) == [young, store.path("v")]


def test_headers_of_many_files_are_read_quickly_and_once(tmp_path: Path) -> None:
    store = FeatureStore(tmp_path)
    store.write("v0", features(), specification=SPECIFICATION)
    content = store.path("v0").read_bytes()
    for number in range(1, 1000):
        store.path(f"v{number}").write_bytes(content)
    start = time.perf_counter()
    assert store.widths == {"image": 5, "audio": 2}
    assert time.perf_counter() - start < 2
    for id in store.ids():
        store.path(id).unlink()
    assert store.specification == SPECIFICATION


def write_raw(folder: Path, about: object, values: np.ndarray | None = None) -> None:
    save_file(
        {"image": np.ones((2, 3), np.float16) if values is None else values},
        folder / "v.safetensors",
        metadata={FORMAT: about if isinstance(about, str) else json.dumps(about)},
    )


HOSTILE_HEADERS = [
    "[" * 10**5,
    [],
    {"modalities": 3},
    {"modalities": [["image"]]},
    {"modalities": ["nosuch"]},
    {"specification": []},
    {"specification": "text"},
    {"absent": [1]},
    {"duration": "long"},
    {"size": [1]},
]


@pytest.mark.parametrize(
    "about",
    HOSTILE_HEADERS,
    ids=lambda about: str(about)[:30],
)
def test_a_hostile_header_is_named(tmp_path: Path, about: object) -> None:
    write_raw(tmp_path, about)
    with pytest.raises(UserError, match=r"v.safetensors is not a feature file of hoca"):
        FeatureStore(tmp_path).header("v")


def test_values_that_are_no_floats_are_named(tmp_path: Path) -> None:
    write_raw(tmp_path, {}, np.ones((2, 3), np.int64))
    with pytest.raises(UserError, match="values of other types than F16"):
        FeatureStore(tmp_path)["v"]


def test_a_pipe_in_the_store_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "v.safetensors")
    with pytest.raises(UserError, match="not a readable feature file"):
        FeatureStore(tmp_path).header("v")
