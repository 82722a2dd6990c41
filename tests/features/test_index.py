"""The index of a store is a copy that only saves time: whatever happens to it, the store says the same."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from hoca.errors import UserError
from hoca.features import FeatureStore, index

MADE = {"image": {"backbone": "one", "steps": 2}}
MANY = index.WORTHWHILE


OLD = 10**18  # nanoseconds since 1970: in 2001


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    """A store that has its index."""
    return indexed(tmp_path)


def indexed(folder: Path, *, written: int | None = OLD) -> FeatureStore:
    store = FeatureStore(folder)
    store.write("v", {"image": np.ones((2, 3))}, specification=MADE, absent={"audio": "silent"}, duration=2.5, size=7)
    content = store.path("v").read_bytes()
    for number in range(MANY - 1):
        store.path(f"v{number}").write_bytes(content)
    if written is not None:
        for path in folder.iterdir():
            os.utime(path, ns=(written, written))
    store.survey()
    assert (folder / index.NAME).is_file()
    return store


def write_again(store: FeatureStore, id: str) -> None:
    """By another backbone, in as many bytes."""
    size = store.path(id).stat().st_size
    made = {"image": {"backbone": "two", "steps": 2}}
    store.write(id, {"image": np.ones((2, 3))}, specification=made, absent={"audio": "silent"}, duration=2.5, size=7)
    assert store.path(id).stat().st_size == size


def write_in_place(store: FeatureStore, id: str) -> None:
    """The same, by a program that does not replace the file."""
    path = store.path(id)
    path.write_bytes(path.read_bytes().replace(b'"one', b'"two'))


def count_opened(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []
    read = FeatureStore.header

    def header(self: FeatureStore, id: str) -> index.Header:
        opened.append(id)
        return read(self, id)

    monkeypatch.setattr(FeatureStore, "header", header)
    return opened


def test_files_that_are_as_they_were_are_not_opened(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = store.header("v")
    opened = count_opened(store, monkeypatch)
    assert all(header == expected for header in store.survey().values())
    assert len(store.survey()) == MANY
    assert not opened
    store.write("v3", {"image": np.ones((1, 3))}, specification={"image": {"backbone": "two"}}, wait=False)
    store.write("new", {"image": np.ones((1, 3))}, specification=MADE, wait=False)
    store.path("v4").unlink()
    found = store.survey()
    assert sorted(opened) == ["new", "v3"]
    assert "v4" not in found
    assert found["v3"].specification == {"image": {"backbone": "two"}}  # type: ignore[union-attr]


def encrypted(content: bytes) -> bytes:
    """As if its first part needed a password."""
    place = content.index(b"PK\x01\x02") + 8
    return content[:place] + b"\x01" + content[place + 1 :]


def changed(content: bytes, **parts: np.ndarray) -> bytes:
    with np.load(io.BytesIO(content)) as file:
        whole = dict(file) | parts
    np.savez(made := io.BytesIO(), **whole)
    return made.getvalue()


def compressed(content: bytes) -> bytes:
    with np.load(io.BytesIO(content)) as file:
        np.savez_compressed(made := io.BytesIO(), **dict(file))
    return made.getvalue()


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "no archive": lambda content: b"PK\x03\x04 no index",
    "cut off": lambda content: content[: len(content) // 2],
    "encrypted": encrypted,
    "compressed": compressed,
    "deeply nested": lambda content: changed(content, kinds=np.frombuffer(b"[" * 100_000, np.uint8)),
    "without inodes": lambda content: changed(content, numbers=np.zeros((MANY, 4), np.int64)),
    "no text": lambda content: content.replace(b"'descr'", b"'descr\x00"),
}


@pytest.mark.parametrize("damage", [*DAMAGED, "lost"])
def test_an_index_that_is_damaged_or_lost_costs_time_alone(store: FeatureStore, damage: str) -> None:
    expected, place = store.survey(), store.folder / index.NAME
    content = place.read_bytes()
    if damage == "lost":
        place.unlink()
    else:
        place.write_bytes(DAMAGED[damage](content))
    assert store.survey() == expected
    assert place.read_bytes()[:4] == content[:4]  # made anew
    assert place.stat().st_size == len(content)


def replaced_by(place: Path, what: str) -> None:
    place.unlink()
    if what == "folder":
        place.mkdir()
    elif what == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/full")


@pytest.mark.parametrize("what", ["folder", "pipe", "device"])
@pytest.mark.timeout(60)
def test_what_is_no_file_in_its_place_is_let_be(store: FeatureStore, what: str) -> None:
    expected, place = store.survey(), store.folder / index.NAME
    replaced_by(place, what)
    before = place.lstat()
    assert store.survey() == expected
    assert os.path.samestat(place.lstat(), before)


def test_a_full_disk_costs_time_alone(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*parts: Any, **arrays: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    expected, place = store.survey(), store.folder / index.NAME
    place.unlink()
    monkeypatch.setattr(np, "savez", full)
    assert store.survey() == expected
    assert not [path.name for path in store.folder.iterdir() if path.name.startswith(".")]


def test_a_time_that_no_index_can_hold_costs_time_alone(store: FeatureStore) -> None:
    expected, time = store.survey(), -(10**19)
    for path in store.folder.glob("v*"):
        os.utime(path, ns=(time, time))
    if store.path("v").stat().st_mtime_ns != time:
        pytest.skip("this file system has no such time")
    assert store.survey() == expected


IMPOSSIBLE = {
    "size": (10**30, -5),
    "duration": (10**400, -0.5, float("inf"), float("nan")),
}


def test_a_file_of_a_size_or_duration_that_no_video_has_is_unreadable(store: FeatureStore) -> None:
    expected, wrong = store.survey(), set()
    (store.folder / index.NAME).unlink()
    for key, value in ((key, value) for key, values in IMPOSSIBLE.items() for value in values):
        about = {"modalities": ["image"], "specification": MADE, "absent": {}, "duration": 1.0, "size": 7, key: value}
        wrong.add(id := f"w{len(wrong)}")
        save_file({"image": np.ones((2, 3), np.float16)}, store.path(id), {"hoca-features-1": json.dumps(about)})
        assert store.current(id, MADE) is None
    for _ in range(2):
        found = store.survey()
        assert {id for id, header in found.items() if isinstance(header, UserError)} == wrong
        assert {id: header for id, header in found.items() if id not in wrong} == expected


def test_a_file_so_new_that_its_time_may_not_tell_is_read_again(tmp_path: Path) -> None:
    store = indexed(tmp_path, written=None)
    time = os.stat(store.path("v")).st_mtime_ns
    write_in_place(store, "v")
    os.utime(store.path("v"), ns=(time, time))  # as on a file system whose clock ticks every second
    assert store.survey()["v"].specification["image"]["backbone"] == "two"  # type: ignore[union-attr]


def test_an_index_in_another_order_that_names_a_file_twice_changes_nothing(store: FeatureStore) -> None:
    expected, place = store.survey(), store.folder / index.NAME
    with np.load(place) as file:
        parts = dict(file)
    ids = parts["ids"].tobytes().split(b"\0")[::-1]
    ids[0] = ids[1]
    parts["ids"] = np.frombuffer(b"\0".join(ids), np.uint8)
    with place.open("wb") as changed:
        np.savez(changed, **parts)
    found = store.survey()
    assert found == expected
    assert list(found) == sorted(found)


def test_a_file_damaged_after_it_was_indexed_is_named(store: FeatureStore) -> None:
    store.path("v7").write_bytes(b"cut")
    assert isinstance(store.survey()["v7"], UserError)
    with pytest.raises(UserError, match=r"v7\.safetensors is not a readable feature file"):
        _ = store.headers


def test_a_file_of_the_same_size_written_later_is_read_again(store: FeatureStore) -> None:
    write_in_place(store, "v")
    later = os.stat(store.path("v")).st_mtime_ns + 10**9
    os.utime(store.path("v"), ns=(later, later))
    assert store.survey()["v"].specification["image"]["backbone"] == "two"  # type: ignore[union-attr]


def test_a_file_of_the_same_size_that_was_given_its_old_time_is_read_again(store: FeatureStore) -> None:
    write_again(store, "v")
    os.utime(store.path("v"), ns=(OLD, OLD))
    assert store.survey()["v"].specification["image"]["backbone"] == "two"  # type: ignore[union-attr]
