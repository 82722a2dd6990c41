"""The index of a store is a copy that only saves time: whatever happens to it, the store says the same."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hoca.errors import UserError
from hoca.features import FeatureStore, index

MADE = {"image": {"backbone": "one", "steps": 2}}
MANY = index.WORTHWHILE


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    """A store that has its index."""
    store = FeatureStore(tmp_path)
    store.write("v", {"image": np.ones((2, 3))}, specification=MADE, absent={"audio": "silent"}, duration=2.5, size=7)
    content = store.path("v").read_bytes()
    for number in range(MANY - 1):
        store.path(f"v{number}").write_bytes(content)
    store.survey()
    assert (tmp_path / index.NAME).is_file()
    return store


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


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no index", None])
def test_an_index_that_is_damaged_or_lost_costs_time_alone(store: FeatureStore, content: bytes | None) -> None:
    expected, place = store.survey(), store.folder / index.NAME
    if content is None:
        place.unlink()
    else:
        place.write_bytes(content)
    assert store.survey() == expected
    assert place.stat().st_size > 1000  # made anew


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
    store.write("w", {"image": np.ones((2, 3))}, specification={"image": {"backbone": "two", "steps": 2}}, wait=False)
    store.path("v").write_bytes(store.path("w").read_bytes())
    later = os.stat(store.path("v")).st_mtime_ns + 10**9
    os.utime(store.path("v"), ns=(later, later))
    assert store.survey()["v"].specification["image"]["backbone"] == "two"  # type: ignore[union-attr]
