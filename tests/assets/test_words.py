from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hoca.assets import parquet, words
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


def literal(data: bytes) -> bytes:
    """Snappy's form of bytes that are not compressed."""
    size = len(data)
    tag = bytes([(size - 1) << 2]) if size <= 60 else bytes([61 << 2]) + struct.pack("<H", size - 1)
    return _varint(size) + tag + data


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def test_snappy_copies_may_read_what_they_write() -> None:
    assert parquet.snappy(literal(b"abc")) == b"abc"
    assert parquet.snappy(literal(b"x" * 500)) == b"x" * 500
    # "ab", then 10 bytes from 2 back: the copy overlaps itself
    assert parquet.snappy(_varint(12) + bytes([1 << 2]) + b"ab" + bytes([1 | (10 - 4) << 2, 2])) == b"ab" * 6
    assert parquet.snappy(_varint(6) + bytes([2 << 2]) + b"abc" + bytes([2 | (3 - 1) << 2, 3, 0])) == b"abcabc"
    with pytest.raises(ValueError, match="expected 9"):
        parquet.snappy(_varint(9) + bytes([2 << 2]) + b"abc")


@pytest.mark.parametrize("dictionary", [True, False])
def test_parquet_written_by_the_usual_library_is_read(tmp_path: Path, dictionary: bool) -> None:
    arrow = pytest.importorskip("pyarrow", reason="compares with pyarrow, which the cluster extra brings")
    import pyarrow.parquet

    shuffled = random.Random(0)
    values = ["".join(shuffled.choices("abcdefgß", k=shuffled.randint(1, 12))) for _ in range(3000)]
    pyarrow.parquet.write_table(
        arrow.table({"index": values}), tmp_path / "x.parquet", use_dictionary=dictionary, data_page_size=4096
    )
    assert parquet.strings((tmp_path / "x.parquet").read_bytes()) == values
