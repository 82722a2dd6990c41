"""Reading word-vector files one word at a time; a vector is read only when it is asked for."""

from __future__ import annotations

import mmap
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from hoca.errors import UserError
from hoca.features.npy import read_header
from hoca.options import shortened

Row = tuple[str, Callable[[], np.ndarray]]  # a word, and how to read its vector
FORMATS = "word2vec (binary or text), GloVe text, or npz with words and vectors"

WIDEST = 1 << 16  # no vector is as wide
MOST_BYTES = 1 << 30  # of the words of an npz file
SPOILT = (SyntaxError, tokenize.TokenError)  # by which numpy complains of the header of an array


@dataclass
class VectorFile:
    """An open file: the width E of its vectors, and its rows in order."""

    width: int
    rows: Iterator[Row]

    def __iter__(self) -> Iterator[Row]:
        return self.rows


@contextmanager
def open_vectors(path: Path) -> Iterator[VectorFile]:
    """Open a file of word vectors of any known kind."""
    if not path.is_file():
        raise UserError(f"no word vectors {path}: give {FORMATS}")
    with open(path, "rb") as file:
        start = file.read(1 << 16)
        file.seek(0)
        if not start.strip():
            raise UserError(f"{path} is empty: give {FORMATS}")
        if start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ")):
            raise UserError(f"{path} is compressed: unpack it first")
        if start.startswith(b"PK\x03\x04"):
            with _open_npz(path) as opened:
                yield opened
            return
        header = re.match(rb"(\d+) (\d+)[ \r]*\n", start)
        if header:
            _check_promise(header[1], header[2], path)
        if header is None:
            yield _glove(file, start, path)
        elif _is_text(start[header.end() :]):
            file.readline()
            yield VectorFile(int(header[2]), _text(file, int(header[2]), path, first_line=2, promised=int(header[1])))
        else:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield VectorFile(int(header[2]), _binary(content, header.end(), int(header[1]), int(header[2]), path))


def _check_promise(words: bytes, width: bytes, path: Path) -> None:
    """What a first line promises must fit into the file, before room is made for it."""
    if len(words) > 12 or len(width) > 12 or 2 * int(words) * int(width) > path.stat().st_size:
        promised = f"{words[:12].decode()} vectors of width {width[:12].decode()}"
        raise UserError(
            f"{path} cannot hold the {promised} that its first line promises: it is cut off, or a "
            "text file whose first rows are damaged"
        )
    if int(width) == 0 or int(words) == 0:
        raise UserError(f"{path}, line 1: {int(words)} words, vectors of width {int(width)}: give {FORMATS}")


def _is_text(after_header: bytes) -> bool:
    """Whether the two rows after a word2vec header are written in digits, as float32 bytes hardly ever look."""
    rows = [row for row in after_header.split(b"\n")[:2] if row.strip()]
    return bool(rows) and all(re.fullmatch(rb"[^ ]+( [-+.0-9a-fA-FinI]+)+[ \r]*", row) for row in rows)


def _glove(file: IO[bytes], start: bytes, path: Path) -> VectorFile:
    fields = start.split(b"\n", 1)[0].rstrip(b" \r").split(b" ")
    if len(fields) < 2 or _numbers(fields[1:]) is None:
        raise UserError(f"{path}, line 1: not a word and its numbers: give {FORMATS}")
    return VectorFile(len(fields) - 1, _text(file, len(fields) - 1, path, first_line=1, promised=None))


def _text(file: IO[bytes], width: int, path: Path, *, first_line: int, promised: int | None) -> Iterator[Row]:
    """Lines `word x1 … xE`. A word may hold spaces (some of GloVe's do), so the last E fields are the vector."""
    number = first_line - 1
    for number, line in enumerate(file, start=first_line):
        line = line.rstrip(b" \r\n")
        if not line:
            raise UserError(f"{path}, line {number}: empty, expected a word and {width} numbers")
        extra = line.count(b" ") - width
        if extra < 0:
            raise UserError(
                f"{path}, line {number}: {line.count(b' ')} numbers, expected {width}: the line or the file is cut off"
            )
        name = line.rsplit(b" ", width)[0] if extra else line[: line.index(b" ")]
        if extra and _numbers(name.split(b" ")[-1:]) is not None:
            raise UserError(f"{path}, line {number}: more than {width} numbers: fix the line or delete it")

        def read(line: bytes = line, number: int = number) -> np.ndarray:
            vector = _numbers(line.rsplit(b" ", width)[1:])
            if vector is None:
                raise UserError(f"{path}, line {number}: not {width} finite numbers: fix the line or delete it")
            return vector

        yield name.decode("utf-8", errors="replace"), read
    found = number - first_line + 1
    if promised is not None and found != promised:
        raise UserError(
            f"{path}: {found} words, but its first line promises {promised}: the file is cut off or damaged"
        )


def _binary(content: mmap.mmap, place: int, words: int, width: int, path: Path) -> Iterator[Row]:
    """Records `word, space, E little-endian float32`, a newline before the word where the writer put one."""
    size = 4 * width
    if len(content) < place + words * (size + 2):
        raise UserError(
            f"{path}: {len(content)} bytes cannot hold the {words} binary vectors of width {width} that its first line "
            "promises: it is cut off, or a text file whose first rows are damaged"
        )
    for number in range(1, words + 1):
        space = content.find(b" ", place)
        if space < 0 or space + 1 + size > len(content):
            raise UserError(f"{path}: cut off at word {number} of {words}: fetch it again")
        word = content[place:space].lstrip(b"\n").decode("utf-8", errors="replace")
        place = space + 1 + size
        if number % 50_000 == 0 and hasattr(mmap, "MADV_DONTNEED"):
            content.madvise(mmap.MADV_DONTNEED)  # pages that were read are of no more use

        def read(first: int = space + 1, word: str = word, number: int = number) -> np.ndarray:
            vector = np.frombuffer(content[first : first + size], dtype="<f4")
            if not np.isfinite(vector).all():
                raise UserError(f"{path}: word {number} ({word!r}) has values that are not finite: fetch it again")
            return vector

        yield word, read


@contextmanager
def _open_npz(path: Path) -> Iterator[VectorFile]:
    wrong = f"{path}: expected the arrays words [n] (text) and vectors [n, E] (numbers)"
    try:
        with zipfile.ZipFile(path) as archive, archive.open("vectors.npy") as file:
            words = _npz_words(archive)
            shape, fortran, dtype = read_header(file)
            if words.ndim != 1 or words.dtype.kind not in "US" or len(shape) != 2 or dtype.kind not in "fiu":
                raise UserError(f"{wrong}, found {words.dtype} {list(words.shape)} and {dtype} {list(shape)}")
            if shape[0] != len(words) or fortran or not 1 <= shape[1] < WIDEST:
                raise UserError(f"{wrong} in C order, found {len(words)} words and vectors {list(shape)}")
            yield VectorFile(shape[1], _npz_rows(file, words, dtype, shape[1], path))
    except KeyError as error:
        raise UserError(f"{wrong} ({error})") from None
    except UserError:
        raise
    except (ValueError, OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile, *SPOILT) as error:
        raise UserError(f"{path} is not a readable npz file ({error}): fetch it again") from None


def _npz_words(archive: zipfile.ZipFile) -> np.ndarray:
    """The words, whose size is bounded before they are unpacked: a small archive can hold a large array."""
    with archive.open("words.npy") as file:
        shape, _, dtype = read_header(file)
        size = prod(shape) * dtype.itemsize
        if dtype.kind not in "US":
            return np.empty(shape if size < MOST_BYTES else 0, dtype)  # which the caller names
        if not 0 <= size < MOST_BYTES:
            raise ValueError(f"words of {shortened(size)} bytes")
        return np.frombuffer(file.read(size), dtype).reshape(shape)


def _npz_rows(file: IO[bytes], words: np.ndarray, dtype: np.dtype, width: int, path: Path) -> Iterator[Row]:
    size = dtype.itemsize * width
    for number, name in enumerate(words, start=1):
        row = file.read(size)
        if len(row) != size:
            raise UserError(f"{path}: cut off at word {number} of {len(words)}: fetch it again")
        word = name.decode("utf-8", errors="replace") if isinstance(name, bytes) else str(name)

        def read(row: bytes = row, word: str = word) -> np.ndarray:
            with np.errstate(over="ignore"):
                vector = np.frombuffer(row, dtype=dtype).astype(np.float32)
            if not np.isfinite(vector).all():
                raise UserError(f"{path}: the vector of {word!r} has values that are not finite")
            return vector

        yield word, read


def _numbers(fields: list[bytes]) -> np.ndarray | None:
    """The fields as finite numbers, or None."""
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold is told by name
            vector = np.array([float(field) for field in fields], dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None
