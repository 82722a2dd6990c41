"""Hostile files for benchmarks/adversary.py: what is made, and the command that gets it.

The tables are those of the tests; damage is that of benchmarks/fuzz_files.py.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_files import DAMAGES, made_seeds
from safetensors.numpy import save_file

from tests.assets import test_provided
from tests.checkpoint import test_model
from tests.data import test_corpus, test_folder, test_vectors
from tests.features import test_hdf5, test_store
from tests.media import making, test_untrusted
from tests.training import test_recipe

Prepare = Callable[[Path], object]
SIZES = ("model.hidden=8", "model.attention=8", "model.embedding=2", "train.epochs=1", "device=cpu")


@dataclass(frozen=True)
class Case:
    kind: str
    name: str
    prepare: Prepare  # puts its files into the folder of the case
    command: tuple[str, ...]  # of `hoca`, run in that folder
    lines: int = 1  # that it may say; more where each video that fails costs itself, a line each, and a count follows


@dataclass(frozen=True)
class Whole:
    """What is in order, for cases to spoil."""

    run: Path  # a model of clips
    clip: Path
    data: Path  # a dataset with features


def cases(whole: Whole, folder: Path) -> list[Case]:
    """All of them, in a fixed order."""
    chosen = [*media(whole, folder), *checkpoints(whole), *weights(), *data(whole), *hdf5(), *recipes(whole)]
    return [*chosen, *vectors(whole)]


def media(whole: Whole, folder: Path) -> Iterator[Case]:
    def case(name: str, prepare: Prepare, file: str = "a.mp4") -> Case:
        return Case("media", name, prepare, ("caption", "--model", str(whole.run), "--", file))

    for name, content, _ in test_untrusted.NO_VIDEOS:
        yield case(name, writing(name, content), name)
    for raw in test_untrusted.NAMES:
        name = os.fsdecode(raw)
        yield case(f"named {raw!r}", writing(name, b"nothing"), name)
    for name, text in test_untrusted.playlists(whole.clip).items():
        yield case(name, writing(name, text.encode()), name)
        yield case(f"{name} in disguise", writing(f"{name}.mp4", text.encode()), f"{name}.mp4")
    yield case("a pipe", lambda place: os.mkfifo(place / "a.mp4"))
    yield case("a device", lambda place: (place / "a.mp4").symlink_to("/dev/zero"))
    yield case("a circle of links", lambda place: (place / "a.mp4").symlink_to("a.mp4"))
    yield case("a folder in a circle", lambda place: (place / "a.mp4").symlink_to("."))
    yield case("not there", lambda place: None)
    yield case("a huge picture", lambda place: making.huge_picture(place / "a.mp4"))
    yield case("255 channels", lambda place: making.many_channels(place / "a.mkv"), "a.mkv")
    chance = random.Random(22)
    seeds = list(made_seeds(folder))
    for number, (name, content) in enumerate(seeds):
        for turn in range(2):
            damage = DAMAGES[(2 * number + turn) % len(DAMAGES)]
            spoilt = bytes(damage(bytearray(content), chance.choice(seeds)[1], chance))
            yield case(f"{damage.__name__} of {name}", writing(name, spoilt), name)


def checkpoints(whole: Whole) -> Iterator[Case]:
    def case(name: str, prepare: Prepare) -> Case:
        return Case("checkpoint", name, prepare, ("caption", str(whole.clip), "--model", "m.safetensors"))

    for name, (change, _) in test_model.HOSTILE.items():
        yield case(name, partial(written_checkpoint, change=change))
    for name, content in (("empty", b""), ("text", b"a model" * 9), ("a pickle", b"\x80\x04\x95" + bytes(60))):
        yield case(name, writing("m.safetensors", content))
    for size in (2**63 - 1, 2**40, 10**8, 1):
        head = size.to_bytes(8, "little")
        yield case(f"a header of {size} bytes", writing("m.safetensors", head + b"{" + bytes(90)))
    deep = ("[" * 50_000).encode()
    yield case("a deep header", writing("m.safetensors", len(deep).to_bytes(8, "little") + deep))
    yield case("a pipe", lambda place: os.mkfifo(place / "m.safetensors"))
    for number in range(20):
        yield case(f"spoilt {number}", partial(written_checkpoint, damage=number))


def written_checkpoint(place: Path, change: Any = None, damage: int | None = None) -> None:
    path = place / "m.safetensors"
    test_model.write(path, **({} if change is None else {"change": change}))
    if damage is not None:
        spoil(path, damage)


def spoil(path: Path, number: int) -> None:
    """Damage a file in the way of that number."""
    chance = random.Random(number)
    content = path.read_bytes()
    path.write_bytes(DAMAGES[number % len(DAMAGES)](bytearray(content), content, chance))


def weights() -> Iterator[Case]:
    """Weights that a user provides, in every kind of file."""

    def case(name: str, file: str, prepare: Prepare) -> Case:
        return Case("weights", name, prepare, ("assets", "pull", "inception-resnet-v2", "--from", file))

    for file, write in test_provided.WRITERS.items():
        yield case(f"of another network, {file}", file, lambda place, w=write, f=file: w(place / f))
        for number in range(3):
            yield case(f"spoilt {number}, {file}", file, partial(spoilt_weights, file=file, number=number))
    for file in ("x.pt", "x.npz"):
        yield case(f"a pickle that runs, {file}", file, partial(running_pickle, file=file))


def spoilt_weights(place: Path, file: str, number: int) -> None:
    test_provided.WRITERS[file](place / file)
    spoil(place / file, number + len(file))


def running_pickle(place: Path, file: str) -> None:
    import torch

    hostile = test_provided.Hostile(place / TRACE)
    if file.endswith("npz"):
        np.savez(place / file, a=np.array([hostile], object))
    else:
        torch.save({"a": hostile}, place / file)


TRACE = "it-ran"  # the file that code within a hostile file would make


def data(whole: Whole) -> Iterator[Case]:
    def case(name: str, prepare: Callable[[Path], object]) -> Case:
        def copied(place: Path) -> None:
            shutil.copytree(whole.data, place / "d")
            prepare(place / "d")
            (place / "r.yaml").write_text("run: run\n")

        return Case("data", name, copied, ("train", "r.yaml", "data=d", *SIZES))

    def line(place: Path, content: object) -> None:
        kept = (place / "captions.jsonl").read_bytes()
        new = content if isinstance(content, bytes) else json.dumps(content).encode()
        (place / "captions.jsonl").write_bytes(kept + new + b"\n")

    def raw(place: Path, about: object) -> None:
        one = next((place / "features").glob("train-*.safetensors"))
        test_store.write_raw(place / "features", about)
        (place / "features" / "v.safetensors").replace(one)

    def named(place: Path, damage: Callable[[Path], None]) -> None:
        """The tests' damage is of a video v02."""
        line(place, {"id": "v02", "split": "train", "captions": ["a dog"]})
        shutil.copy(next((place / "features").glob("train-*")), place / "features" / "v02.safetensors")
        damage(place)

    def pipe(place: Path, name: str) -> None:
        (place / name).unlink(missing_ok=True)
        os.mkfifo(place / name)

    for content, _, message in test_corpus.BROKEN:
        yield case(message, partial(line, content=content))
    for content, message in test_corpus.NO_CAPTIONS:
        yield case(message, lambda place, c=content: (place / "captions.jsonl").write_bytes(c))
    for damage, kind, _ in test_folder.DAMAGES:
        yield case(kind, partial(named, damage=damage))
    for about in test_store.HOSTILE_HEADERS:
        yield case(f"a header {str(about)[:40]}", partial(raw, about=about))
    for name in ("captions.jsonl", "categories.txt", "features/train-00.safetensors"):
        yield case(f"a pipe for {name}", partial(pipe, name=name))
    yield case("no features", lambda place: shutil.rmtree(place / "features"))
    yield case("a file for the folder", lambda place: (shutil.rmtree(place), place.write_bytes(b"")))
    for number in range(8):
        yield case(
            f"spoilt features {number}",
            lambda place, n=number: spoil(place / "features" / "train-00.safetensors", n),
        )
    long = {"id": "x" * 300, "split": "train", "captions": ["a dog"]}
    yield case("a long id", partial(line, content=long))
    yield case("an id that climbs", partial(line, content=long | {"id": "../../etc/passwd"}))
    yield case("a caption of a megabyte", partial(line, content=long | {"id": "b", "captions": ["dog " * 250_000]}))


def hdf5() -> Iterator[Case]:
    def case(name: str, prepare: Callable[[Path], object]) -> Case:
        command = ("data", "import-features", "image=f.h5", "--out", "store")
        return Case("hdf5", name, lambda place: prepare(place / "f.h5"), command, lines=3)

    def flipped(path: Path, write: Callable[[Path], None], place: int) -> None:
        write(path)
        content = bytearray(path.read_bytes())
        content[place % len(content)] ^= 0xFF
        path.write_bytes(content)

    for write, message in test_hdf5.BROKEN:
        yield case(message, write)
    yield case("the library loops", partial(flipped, write=test_hdf5.one_array, place=test_hdf5.LOOPS[1]))
    for writes in (test_hdf5.one_array, test_hdf5.per_group, test_hdf5.per_video):
        for place in range(40, 2400, 400):
            yield case(f"{writes.__name__}, byte {place}", partial(flipped, write=writes, place=place))


def recipes(whole: Whole) -> Iterator[Case]:
    def case(name: str, text: str) -> Case:
        return Case("recipe", name, writing("r.yaml", text.encode()), ("train", "r.yaml", f"data={whole.data}"))

    for name, text in test_recipe.HOSTILE.items():
        yield case(name, text)
    for text, message in test_recipe.MISTAKES:
        yield case(message, text)
    yield replace(case("a pipe", ""), prepare=lambda place: os.mkfifo(place / "r.yaml"))


def vectors(whole: Whole) -> Iterator[Case]:
    def case(name: str, prepare: Prepare) -> Case:
        def both(place: Path) -> None:
            prepare(place)
            (place / "r.yaml").write_text("run: run\n")

        return Case("vectors", name, both, ("train", "r.yaml", f"data={whole.data}", "word_vectors=v.npz", *SIZES))

    for content, message in test_vectors.DAMAGED:
        yield case(message, writing("v.npz", content))
    for number, (words, values) in enumerate(test_vectors.CLAIMS):
        yield case(
            f"claim {number}", lambda place, w=words, v=values: test_vectors.npz(place / "v.npz", words=w, vectors=v)
        )
    yield case("a pipe", lambda place: os.mkfifo(place / "v.npz"))
    yield case("weights", lambda place: save_file({"a": np.ones(3)}, place / "v.npz"))


def writing(name: str, content: bytes) -> Prepare:
    return lambda place: (place / name).write_bytes(content)
