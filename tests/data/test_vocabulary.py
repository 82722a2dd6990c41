"""A vocabulary as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoca.data import read_vocabulary, write_vocabulary
from hoca.errors import UserError
from hoca.text import Vocabulary


def test_written_and_read_is_equal(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["dog", "naïve", "犬"])
    write_vocabulary(vocabulary, tmp_path / "vocabulary.json")
    loaded = read_vocabulary(tmp_path / "vocabulary.json")
    assert loaded == vocabulary
    assert loaded != Vocabulary(["naïve", "dog", "犬"])


@pytest.mark.parametrize("content", [b"{", b'{"a": 1}', b'["a", "a"]', b"\xff", b"[" * 100_000])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"vocabulary\.json"):
        read_vocabulary(path)
    with pytest.raises(UserError, match=r"cannot read .*absent\.json"):
        read_vocabulary(tmp_path / "absent.json")
