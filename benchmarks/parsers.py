"""hoca's own parsers as functions of some bytes, for benchmarks/fuzz_parsers.py and the test that replays its finds.

Each gives a result or raises `UserError`; anything else is a fault.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from hoca.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the whole files to start from are those of the tests
Parser = Callable[[Path], object]


def parse(name: str, content: bytes, folder: Path) -> None:
    """Give these bytes to a parser; a fault is raised."""
    ending, parser = PARSERS[name]
    path = folder / f"x{ending}"
    path.write_bytes(content)
    with suppress(UserError):
        parser(path)


def _store(path: Path) -> None:
    from hoca.features import FeatureStore

    store = FeatureStore(path.parent)
    store.header(path.stem)
    store[path.stem]


def _index(path: Path) -> None:
    from hoca.features import FeatureStore, index

    path.replace(path.with_name(index.NAME))
    FeatureStore(path.parent).survey()


def _hdf5(path: Path) -> None:
    from hoca.features.hdf5_file import answers

    ask = answers(path)
    for id in ask("ids"):
        ask("features", id)
    ask("made")


def _vectors(path: Path) -> None:
    from hoca.data.vectors import load_vectors

    load_vectors(path, ["dog", "w0", "the", "a"])


def _recipe(path: Path) -> None:
    from hoca.training import read_recipe

    read_recipe(path)


def _checkpoint(path: Path) -> None:
    from hoca.checkpoint import load_model

    load_model(path)


def _weights(path: Path) -> None:
    from hoca.assets import weight_files

    weight_files.read(path)


def _pickle(path: Path) -> None:
    from hoca.assets import pickles

    pickles.load(io.BytesIO(path.read_bytes()))


def _captions(path: Path) -> None:
    from hoca.data import read_corpus

    read_corpus(path)


PARSERS: dict[str, tuple[str, Parser]] = {
    "store": (".safetensors", _store),
    "index": (".npz", _index),
    "hdf5": (".h5", _hdf5),
    "vectors": (".npz", _vectors),
    "recipe": (".yaml", _recipe),
    "checkpoint": (".safetensors", _checkpoint),
    "npz": (".npz", _weights),
    "torch": (".pt", _weights),
    "pickle": (".pkl", _pickle),
    "captions": (".jsonl", _captions),
}


def seeds(name: str, folder: Path) -> Iterator[bytes]:
    """Files to start from: whole ones and those of the tests' tables."""
    import pickle

    import numpy as np

    from hoca.features import FeatureStore, index
    from tests.assets import test_provided
    from tests.checkpoint import test_model
    from tests.data import test_corpus, test_vectors
    from tests.features import test_hdf5, test_index
    from tests.training import test_recipe

    path = folder / "seed"
    if name == "store":
        FeatureStore(folder).write("s", {"image": np.ones((2, 3))}, specification={"image": {"backbone": "x"}})
        yield (folder / "s.safetensors").read_bytes()
    elif name == "index":
        content = (test_index.indexed(folder).folder / index.NAME).read_bytes()
        yield from (content, *(damage(content) for damage in test_index.DAMAGED.values()))
    elif name == "hdf5":
        for write in (test_hdf5.per_video, test_hdf5.per_group, test_hdf5.one_array):
            write(path)
            yield path.read_bytes()
    elif name == "vectors":
        yield from (content for content, _ in test_vectors.DAMAGED)
        yield test_vectors.npz(path, words=test_vectors.CLAIMS[0][0], vectors=test_vectors.CLAIMS[0][1]).read_bytes()
    elif name == "recipe":
        yield from (text.encode() for text, _ in test_recipe.MISTAKES)
        yield from (recipe.read_bytes() for recipe in sorted((ROOT / "src" / "hoca" / "recipes").glob("*.yaml"))[:4])
    elif name == "checkpoint":
        yield test_model.write(path).read_bytes()
    elif name == "pickle":
        yield pickle.dumps({"a": [np.ones(3)], "b": {"c": np.zeros((2, 2), np.float32)}}, 2)
    elif name == "captions":
        for line, *_ in test_corpus.BROKEN:
            yield test_corpus.written(folder, test_corpus.GOOD, line).read_bytes()
    else:
        file = folder / {"npz": "x.npz", "torch": "x.pt"}[name]
        test_provided.WRITERS[file.name](file)
        yield file.read_bytes()
