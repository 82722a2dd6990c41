"""Whatever `make fuzz-parsers` has ever found is answered with a result or one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .scripts import FOLDER

FOUND = sorted((Path(__file__).resolve().parents[1] / "fuzzed").glob("*-*"))
sys.path.insert(0, str(FOLDER))
from parsers import PARSERS, parse, seeds  # noqa: E402

sys.path.remove(str(FOLDER))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_a_find_is_answered(path: Path, tmp_path: Path) -> None:
    parse(path.name.rpartition("-")[0], path.read_bytes(), tmp_path)


@pytest.mark.parametrize("name", PARSERS)
def test_every_parser_has_files_to_start_from(name: str, tmp_path: Path) -> None:
    if name == "hdf5":
        pytest.importorskip("h5py", reason="needs h5py: pip install 'hoca[h5]'")
    (tmp_path / "seeds").mkdir()
    contents = list(seeds(name, tmp_path / "seeds"))
    assert contents
    for content in contents:
        parse(name, content, tmp_path)
