"""Pickles are read for their arrays; whatever else one holds is refused before it can do anything."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from hoca.assets import pickles
from hoca.errors import UserError


class Hostile:
    """Unpickling this runs a shell command, unless nobody looks it up."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [3, 4])  # the others write arrays with more than arrays
def test_arrays_come_back_by_their_path(protocol: int) -> None:
    value = {
        "params": {"conv": {"kernel": np.arange(6.0).reshape(2, 3)}},
        "list": [np.ones(2, np.float32), np.int64([3])],
    }
    found = pickles.load(io.BytesIO(pickle.dumps(value, protocol)))
    assert sorted(found) == ["list/0", "list/1", "params/conv/kernel"]
    np.testing.assert_array_equal(found["params/conv/kernel"], value["params"]["conv"]["kernel"])  # type: ignore[call-overload,index]


def test_an_object_array_file_is_read_the_same_way() -> None:
    file = io.BytesIO()
    np.save(file, np.array({"conv1": {"weights": np.ones(3)}}, dtype=object), allow_pickle=True)
    file.seek(0)
    assert list(pickles.load(file)) == ["conv1/weights"]


@pytest.mark.parametrize("protocol", range(0, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("place", ["top", "beside", "within"])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int, place: str) -> None:
    trace = tmp_path / "it-ran"
    hostile = Hostile(f"touch {trace}")
    value: object = {"top": hostile, "beside": {"a": np.ones(2), "b": hostile}, "within": np.array([hostile], object)}[
        place
    ]
    with pytest.raises(UserError, match="only numpy arrays are read"):
        pickles.load(io.BytesIO(pickle.dumps(value, protocol)))
    assert not trace.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",  # a call by name
        b"cnumpy\nload\n(S'/etc/passwd'\ntR.",  # numpy, but no array
        b"\x80\x04\x8c\x05numpy\x94\x8c\x0dsave.__code__\x94\x93.",  # an attribute of a function
        b"cos\nsystem\n.",
    ],
)
def test_names_are_not_looked_up(content: bytes) -> None:
    with pytest.raises(UserError, match="nothing of it was run"):
        pickles.load(io.BytesIO(content))


def test_other_values_are_refused() -> None:
    with pytest.raises(UserError, match="str at name"):
        pickles.load(io.BytesIO(pickle.dumps({"name": "x"})))


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff", b"no pickle"])
def test_a_damaged_pickle_is_named(content: bytes) -> None:
    with pytest.raises(UserError, match=r"the pickle is damaged|only numpy arrays"):
        pickles.load(io.BytesIO(content))


def test_what_a_pickle_claims_to_remember_takes_no_memory_ahead() -> None:
    content = pickle.dumps({"a": np.ones(3)}, 3)
    begin = b"\x80\x03}q\x00"
    assert content.startswith(begin)
    claiming = begin[:3] + b"r" + struct.pack("<I", 20_000_000) + content.removeprefix(begin)  # LONG_BINPUT
    tracemalloc.start()
    try:
        arrays = pickles.load(io.BytesIO(claiming))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert arrays["a"].tolist() == [1, 1, 1]
    assert peak < 10_000_000  # the unpickler in C takes 320 MB
