"""Make the dataset: a folder with captions, features and, if wanted, the video files themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hoca import features, media
from hoca.data.binding.render import render
from hoca.data.binding.scene import SPLITS, Options, Scene, draw, generator
from hoca.data.binding.words import sentences
from hoca.errors import UserError
from hoca.features import Extracted, FeatureStore
from hoca.files import replacing
from hoca.progress import track

RECORD = "binding.json"


def clips(options: Options) -> Iterator[tuple[str, str, Scene, list[str]]]:
    """Id, split, scene and captions of every clip, in order."""
    for split in SPLITS:
        for number in range(getattr(options, split)):
            rng = generator(options, split, number)
            scene = draw(rng, options)
            yield f"{split}-{number:05d}", split, scene, sentences(scene, rng, options.captions)


def prepare(out: Path | str, options: Options | None = None, videos: bool = False) -> Path:
    """Write `captions.jsonl`, `features/` and, with `videos`, `videos/<id>.mp4` into `out`; return `out`.

    With `videos` the features come from the written files, otherwise from the rendered arrays, without any codec.
    What is done already is kept; a folder made with other options is an error.
    """
    out, options = Path(out), options or Options()
    _claim(out, asdict(options) | {"videos": videos})
    specification = features.light_specification()
    store = FeatureStore(out / "features")
    lines = []
    total = sum(getattr(options, split) for split in SPLITS)
    extractor = features.Extractor(specification)
    for id, split, scene, captions in track(clips(options), total=total, what="binding clips"):
        lines.append({"id": id, "split": split, "captions": captions, "attributes": scene.attributes})
        file = out / "videos" / f"{id}.mp4" if videos else None
        if _done(store, id, specification) and (file is None or file.is_file()):
            continue
        made = _features(scene, options, extractor, file)
        store.write(id, made.features, specification=specification, absent=made.absent, duration=made.duration)
    extractor.close()
    with replacing(out / "captions.jsonl") as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return out


def _done(store: FeatureStore, id: str, specification: dict[str, Any]) -> bool:
    """Whether the features are there, whole and made as they would be made now."""
    try:
        return id in store and store.header(id).specification == specification
    except UserError:
        return False


def _features(scene: Scene, options: Options, extractor: features.Extractor, file: Path | None) -> Extracted:
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
