"""Make the dataset: a folder with captions, features and, if wanted, the video files themselves."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hoca import features, media
from hoca.data.binding.render import render
from hoca.data.binding.scene import SPLITS, BindingOptions, Scene, draw, generator
from hoca.data.binding.words import sentences
from hoca.errors import UserError
from hoca.features import Extracted, FeatureStore
from hoca.files import replacing
from hoca.progress import track

RECORD = "binding.json"
PART = 50  # clips that a process makes at a time


def clips(options: BindingOptions) -> Iterator[tuple[str, str, Scene, list[str]]]:
    """Id, split, scene and captions of every clip, in order."""
    for split in SPLITS:
        for number in range(getattr(options, split)):
            rng = generator(options, split, number)
            scene = draw(rng, options)
            yield f"{split}-{number:05d}", split, scene, sentences(scene, rng, options.captions)


def prepare(out: Path | str, options: BindingOptions | None = None, videos: bool = False, workers: int = 1) -> Path:
    """Write `captions.jsonl`, `features/` and, with `videos`, `videos/<id>.mp4` into `out`; return `out`.

    With `videos` the features come from the written files, otherwise from the rendered arrays, without any codec.
    What is done already is kept; a folder made with other options is an error. `workers` processes make the features
    of rendered arrays; the result is the same.
    """
    out, options = Path(out), options or BindingOptions()
    _claim(out, asdict(options) | {"videos": videos})
    specification, store = features.light_specification(), FeatureStore(out / "features")
    lines, missing = [], []
    for id, split, scene, captions in clips(options):
        lines.append({"id": id, "split": split, "captions": captions, "attributes": scene.attributes})
        written = not videos or _video(out, id).is_file()
        if not (written and _done(store, id, specification)):
            missing.append((id, scene))
    make = partial(_make, out, options, videos)
    parts = [missing[first : first + PART] for first in range(0, len(missing), PART)]
    if workers > 1 and len(parts) > 1 and not videos:
        with ProcessPoolExecutor(min(workers, len(parts)), multiprocessing.get_context("spawn")) as pool:
            for _ in track(pool.map(make, parts), total=len(parts), what=f"parts of {PART} binding clips"):
                pass
    elif missing:
        make(track(missing, total=len(missing), what="binding clips"))
    with replacing(out / "captions.jsonl") as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return out


def _make(out: Path, options: BindingOptions, videos: bool, wanted: Iterable[tuple[str, Scene]]) -> None:
    """Write the features of some clips, and their files with `videos`."""
    specification, store = features.light_specification(), FeatureStore(out / "features")
    with features.Extractor(specification) as extractor:
        for id, scene in wanted:
            made = _features(scene, options, extractor, _video(out, id) if videos else None)
            store.write(id, made.features, specification=specification, absent=made.absent, duration=made.duration)


def _video(out: Path, id: str) -> Path:
    return out / "videos" / f"{id}.mp4"


def _done(store: FeatureStore, id: str, specification: dict[str, Any]) -> bool:
    """Whether the features are there, whole and made as they would be made now."""
    try:
        return id in store and store.header(id).specification == specification
    except UserError:
        return False


def _features(scene: Scene, options: BindingOptions, extractor: features.Extractor, file: Path | None) -> Extracted:
    clip = render(scene, options)
    if file is None:
        return features.of_clip(clip, extractor)
    media.write(file, clip.frames, options.fps, clip.waveform, clip.rate)
    return extractor.extract(file)


def _claim(out: Path, record: dict[str, Any]) -> None:
    """Write down what the folder is made of, or check that it is the same."""
    path = out / RECORD
    if not path.is_file():
        if (out / "captions.jsonl").exists() or (out / "features").exists():
            raise UserError(f"{out} holds another dataset: give an empty folder")
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        differing = [name for name in record if found.get(name) != record[name]]
    except (ValueError, AttributeError):
        raise UserError(f"{path} is damaged: delete the folder {out} and run the same command again") from None
    if differing:
        what = ", ".join(f"{name}={found.get(name)} (now {record[name]})" for name in differing)
        raise UserError(f"{out} holds a binding dataset with {what}: give another folder or delete this one")
