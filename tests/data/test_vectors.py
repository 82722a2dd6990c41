"""Word vectors are the same whatever the format, and a damaged file is named with its line."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca.data import category_vectors, load_vectors
from hoca.errors import UserError

Table = dict[str, list[float]]


def word2vec_binary(path: Path, table: Table, newline: bytes = b"\n") -> None:
    width = len(next(iter(table.values())))
    rows = [word.encode() + b" " + np.array(row, "<f4").tobytes() + newline for word, row in table.items()]
    path.write_bytes(f"{len(table)} {width}\n".encode() + b"".join(rows))


def word2vec_binary_without_newlines(path: Path, table: Table) -> None:
    word2vec_binary(path, table, newline=b"")


def glove(path: Path, table: Table, header: str = "", end: str = "\n") -> None:
    rows = [" ".join([word, *(repr(float(np.float32(x))) for x in row)]) + end for word, row in table.items()]
    path.write_text(header + "".join(rows), encoding="utf-8", newline="")


def word2vec_text(path: Path, table: Table) -> None:
    glove(path, table, header=f"{len(table)} {len(next(iter(table.values())))}\n", end=" \r\n")


def npz(path: Path, table: Table) -> None:
    with open(path, "wb") as file:
        np.savez_compressed(file, words=np.array(list(table)), vectors=np.array(list(table.values()), np.float32))


FORMATS = [word2vec_binary, word2vec_binary_without_newlines, word2vec_text, glove, npz]
TABLE: Table = {"dog": [1, 2, 3], "the": [4, 5, 6], "naïve": [7, 8, 9], "English": [10, 11, 12], "Dog": [0, 0, 1]}


@pytest.mark.parametrize("write", FORMATS)
def test_rows_of_the_wanted_words(tmp_path: Path, write: Callable[[Path, Table], None]) -> None:
    write(tmp_path / "vectors", TABLE)
    vectors, found = load_vectors(tmp_path / "vectors", ["<pad>", "naïve", "dog", "zebra", "dog"])
    assert vectors.tolist() == [[0, 0, 0], [7, 8, 9], [1, 2, 3], [0, 0, 0], [1, 2, 3]]
    assert found.tolist() == [False, True, True, False, True]
    assert (vectors.dtype, found.dtype) == (torch.float32, torch.bool)


@pytest.mark.parametrize("write", FORMATS)
def test_case_is_the_second_choice_and_the_first_such_word_the_one(
    tmp_path: Path, write: Callable[[Path, Table], None]
) -> None:
    write(tmp_path / "vectors", TABLE | {"ENGLISH": [0, 1, 0]})
    vectors, found = load_vectors(tmp_path / "vectors", ["Dog", "DOG", "The", "english"])
    assert vectors.tolist() == [[0, 0, 1], [1, 2, 3], [4, 5, 6], [10, 11, 12]]
    assert found.all()


words = st.text(st.characters(codec="utf-8", exclude_characters=" \n\r\0", exclude_categories=["Cs"]), min_size=1)
numbers = st.floats(-1024, 1024, width=32)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), width=st.integers(1, 5), write=st.sampled_from(FORMATS))
def test_every_word_of_a_file_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, width: int, write: Callable[[Path, Table], None]
) -> None:
    plain = words.filter(lambda word: not word.replace(".", "").isdigit())
    rows = st.lists(numbers, min_size=width, max_size=width)
    table = data.draw(st.dictionaries(plain, rows, min_size=1, max_size=6))
    path = tmp_path_factory.mktemp("vectors") / "vectors"
    write(path, table)
    vectors, found = load_vectors(path, list(table))
    assert found.all()
    assert np.array_equal(vectors.numpy(), np.array(list(table.values()), np.float32))


def test_words_with_spaces_do_not_disturb(tmp_path: Path) -> None:
    glove(tmp_path / "vectors", {"dog": [1, 2], ". . .": [3, 4], "at a@b.com": [5, 6], "cat": [7, 8]})
    vectors, _ = load_vectors(tmp_path / "vectors", ["cat", "dog", ". . ."])
    assert vectors.tolist() == [[7, 8], [1, 2], [3, 4]]


def binary(count: int, rows: int, cut: int = 0) -> bytes:
    row = np.array([1.5, -2.5], "<f4").tobytes()
    content = f"{count} 2\n".encode() + b"".join(b"w%d " % number + row + b"\n" for number in range(rows))
    return content[: len(content) - cut]


DAMAGED = [
    (b"", "is empty"),
    (b"\x1f\x8b\x08rest", "is compressed: unpack it first"),
    (b"PK\x03\x04rest", "not a readable npz"),
    (b"some prose\nhere\n", "line 1: not a word and its numbers"),
    (b"dog 1 2\ncat 1\n", "line 2: 1 numbers, expected 2"),
    (b"dog 1 2\ncat 1 2 3\n", "line 2: more than 2 numbers"),
    (b"dog 1 2\n\ncat 1 2\n", "line 2: empty"),
    (b"the 1 2\ndog 1 x\n", "line 2: not 2 finite numbers"),
    (b"the 1 2\ndog 1 nan\n", "line 2: not 2 finite numbers"),
    (b"2 2\nthe 1 2\ndog 1\n", "line 3: 1 numbers, expected 2"),
    (b"3 2\nthe 1 2\ndog 1 2\n", "2 words, but its first line promises 3"),
    (b"3 0\n", "width 0"),
    (b"0 3\n", "0 words"),
    (b"0 3\ndog 1 2 3\n", "0 words"),
    (b"1 60000\ndog 1 2\n", "cannot hold the 1 vectors of width 60000"),
    (b"9" * 5000 + b" 2\ndog 1 2\n", "cannot hold"),
    (b"1 " + b"9" * 5000 + b"\ndog 1 2\n", "cannot hold"),
    (b"dog 1 1e300\n", "not a word and its numbers"),
    (b"9 2\nthe 1 ?\n", "it is cut off, or a text file whose first rows are damaged"),
    (binary(9, 3), "cannot hold the 9 binary vectors"),
    (binary(9, 9, cut=4), "cut off at word 9 of 9"),
    (binary(1, 1).replace(np.array(-2.5, "<f4").tobytes(), np.array(np.nan, "<f4").tobytes()), "not finite"),
]


@pytest.mark.parametrize(("content", "message"), DAMAGED, ids=[message for _, message in DAMAGED])
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "vectors"
    path.write_bytes(content)
    with pytest.raises(UserError) as stopped:
        load_vectors(path, ["dog", "w0"])
    assert message in str(stopped.value)
    assert str(path) in str(stopped.value)


def test_npz_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    for arrays, message in [
        ({"vectors": np.ones((2, 3))}, "expected the arrays words"),
        ({"words": np.array(["a"]), "vectors": np.ones((2, 3))}, "1 words and vectors"),
        ({"words": np.array(["a", "b"]), "vectors": np.ones(2)}, "expected the arrays words"),
        ({"words": np.array(["a", None]), "vectors": np.ones((2, 3))}, "expected the arrays words"),
        ({"words": np.array(["dog"]), "vectors": np.full((1, 3), np.inf)}, "not finite"),
    ]:
        np.savez(path, **arrays)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=message):
            load_vectors(path, ["dog"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no word vectors .*absent\.txt"):
        load_vectors(tmp_path / "absent.txt", ["dog"])


def test_a_category_is_the_mean_of_its_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    glove(tmp_path / "vectors", {"tv": [1, 0], "shows": [3, 2], "news": [5, 5], "politics": [7, 9]})
    with caplog.at_level(logging.WARNING):
        means = category_vectors(["tv shows", "news/events/politics", "howto"], tmp_path / "vectors")
    assert means.tolist() == [[2, 1], [6, 7], [0, 0]]
    assert "howto" in caplog.text
    with pytest.raises(UserError, match="none of the words howto"):
        category_vectors(["howto"], tmp_path / "vectors")


def npz(path: Path, **arrays: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(shape: str, descr: str = "<f4", values: bytes = b"") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + values


CLAIMS = [
    (npy("(100000000000,)", "<U8"), npy("(100000000000, 3)")),
    (npy("(-1,)", "<U8"), npy("(-1, 3)")),
    (npy("(1,)", "<U900000000"), npy("(1, 3)")),
    (npy("(2,)", "<U3", b"1234"), npy("(2, 3)")),
    (npy("(1,)", "<U1", b"d\0\0\0"), npy("(1, 100000000000)")),
    (npy("(1,)", "<U1", b"d\0\0\0"), npy("(1, 3)", "|O")),
    (npy("(1,)", "|O"), npy("(1, 3)")),
    (b"", npy("(1, 3)")),
    (npy("(1"), npy("(1, 3)")),
]


@pytest.mark.parametrize(
    ("words", "vectors"),
    CLAIMS,
)
def test_sizes_that_an_npz_claims_are_not_believed(tmp_path: Path, words: bytes, vectors: bytes) -> None:
    with pytest.raises(UserError, match=r"expected the arrays|not a readable npz|cut off"):
        load_vectors(npz(tmp_path / "v.npz", words=words, vectors=vectors), ["d"])


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    np.savez_compressed(path, words=np.array(["dog"] * 50), vectors=np.random.default_rng(0).normal(size=(50, 30)))
    whole = path.read_bytes()
    for place in range(30, 400, 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with suppress(UserError):
            load_vectors(path, ["dog"])
