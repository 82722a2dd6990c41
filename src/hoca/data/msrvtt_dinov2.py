"""MSR-VTT videos in features of DINOv2, I3D and SoundNet, split by source to choose a model honestly.

    hoca data prepare msrvtt-dinov2 --source DATA --out data/msrvtt-dinov2
    hoca data prepare msrvtt-dinov2 --source DATA --out data/msrvtt-dinov2-0 fold=0 folds=5
    hoca data prepare msrvtt-dinov2 --source DATA --out data/msrvtt-dinov2-final with_dev=true

A folder dataset of every video of which there are pictures:

    train        official-train videos, less those to validate with
    validation   the videos of the dev list, or of one fold; none with `with_dev=true`
    test         official-val videos: to be looked at once, when everything is chosen

Splits go by the source that a video was cut from (`url` in the annotations): no source is on two sides. `change` is the
difference of neighbouring pictures. What a video lacks is a missing modality.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hoca.data.corpus import Corpus, Video, write_corpus
from hoca.data.msrvtt import clip_features, fold_of, read
from hoca.data.official import find_file, read_arrays
from hoca.data.problems import Report, log
from hoca.errors import UserError
from hoca.features.specification import specify
from hoca.features.store import FeatureStore, Specification
from hoca.options import check_bounds, option

IMAGE, STEPS, WIDTH = "dinov2-small", 20, 768
FRAMES = "msrvtt-frames"
ONLY_PICTURES = dict.fromkeys(("motion", "audio"), "only pictures of it are known")
ONE_PICTURE = {"change": "only one picture of it is known"}


@dataclass(frozen=True)
class DinoOptions:
    fold: int | None = option(None, "validate with this fold of the sources, from 0, in place of the dev list")
    folds: int = option(5, "how many folds there are", least=2)
    with_dev: bool = option(False, "learn from the dev list too: nothing is left to validate with")

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.fold is not None and not 0 <= self.fold < self.folds:
            raise UserError(f"fold={self.fold} must be at least 0 and below {self.folds}, the number of folds")
        if self.fold is not None and self.with_dev:
            raise UserError(f"fold={self.fold} with_dev=true: a fold parts the dev list too: leave one of them out")


@dataclass(frozen=True)
class Example:
    """A video and what is known of it."""

    video: Video
    features: Mapping[str, np.ndarray]  # modality → [T, width]
    absent: Mapping[str, str]  # modality → why


def prepare(
    source: Path | str, out: Path | str, options: DinoOptions | None = None, *, report: Report = log.info
) -> Path:
    """Write a folder dataset, from the folder of the research data."""
    source, out = Path(source), Path(out)
    examples = list(videos(source, options or DinoOptions()))
    store, specification = FeatureStore(out / "features"), specify(image=IMAGE, change=True)
    for example in examples:
        _write(store, example, specification)
    write_corpus(Corpus("msrvtt-dinov2", tuple(each.video for each in examples)), out)
    counts = Counter(each.video.split for each in examples)
    report(
        f"{out}: {counts['train']} videos to learn from, {counts['validation']} to validate with, {counts['test']} "
        f"official-val videos to test with"
    )
    return out


def videos(source: Path, options: DinoOptions) -> Iterator[Example]:
    """Every MSR-VTT video of which there are pictures, with all that it has."""
    official = read(source)
    pictures = dict(_frames(source)) | dict(_clip_pictures(source))
    clips = {id: (features, absent) for id, features, absent in clip_features(source)}
    unknown = sorted((pictures.keys() | clips.keys()) - {video.id for video in official.videos})
    if unknown:
        raise UserError(f"{unknown[0]} has features and is no MSR-VTT video: give the files as published")
    validates = _validates(source, official, options)
    for video in official.videos:
        if video.id not in pictures:
            continue
        if video.split == "test":
            raise UserError(f"{video.id} is of the official test split: nothing of it may be here, leave it out")
        split = "test" if video.split == "validation" else "validation" if validates(video) else "train"
        features, absent = clips.get(video.id, ({}, ONLY_PICTURES))
        image = pictures[video.id]  # the clips' own is another backbone's
        features = {"image": image, "change": np.diff(image, axis=0), **_without(features, "image")}
        if len(image) == 1:
            features, absent = _without(features, "change"), ONE_PICTURE | absent
        yield Example(replace(video, split=split), features, absent)


def _validates(source: Path, official: Corpus, options: DinoOptions) -> Callable[[Video], bool]:
    """Whether an official-train video is kept from training; all videos of one source share the answer."""
    if options.fold is not None:
        return lambda video: fold_of(video.attributes["url"], options.folds) == options.fold
    if options.with_dev:
        return lambda video: False
    path = _file(source, "msrvtt-dev.txt", "splits")
    train = {video.id: video.attributes["url"] for video in official.split("train")}
    listed = path.read_text(encoding="utf-8").split()
    for id in listed:
        if id not in train:
            raise UserError(f"{path}: {id} is no official-train video: give the list as published")
    sources = {train[id] for id in listed}
    return lambda video: video.attributes["url"] in sources


def _without(features: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {key: values for key, values in features.items() if key != name}


def _frames(source: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Some frames [T, 768] of each of many videos."""
    for row, features in _rows(source):
        yield row["id"], features


def _clip_pictures(source: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Frames [20, 768] of the clips whose files are known."""
    shapes = {"ids": (None,), "q": (None, STEPS, WIDTH), "scale": (WIDTH,), "zero": (WIDTH,)}
    arrays = read_arrays(_file(source, "clips.npz", "dinov2"), shapes)
    for id, quantised in zip(map(str, arrays["ids"]), arrays["q"], strict=True):
        yield id, _restored(quantised, arrays)


def _rows(source: Path) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """The lines of the frames' list, in order, each with its rows [T, 768] of the array."""
    packed, lines = (_file(source, f"{FRAMES}.{kind}", "dinov2") for kind in ("npz", "jsonl.gz"))
    arrays = read_arrays(packed, {"q": (None, WIDTH), "scale": (WIDTH,), "zero": (WIDTH,)})
    try:
        with gzip.open(lines, "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
            for row in rows:
                first, end = row["rows"]
                if not 0 <= first < end <= len(arrays["q"]) or not {"id", "split", "captions"} <= set(row):
                    raise ValueError(row)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{lines} does not describe the rows of {packed} ({error!r:.80}): fetch it again") from None
    for row in rows:
        yield row, _restored(arrays["q"][slice(*row["rows"])], arrays)


def _restored(quantised: np.ndarray, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """The features that were quantised: x = zero + scale · q."""
    return arrays["zero"] + arrays["scale"] * quantised  # [T, width]


def _file(source: Path, name: str, folder: str) -> Path:
    path = find_file(source, name, folder)
    if path is None:
        raise UserError(f"no {name} in {source} or {source / folder}: put it there")
    return path


def _write(store: FeatureStore, example: Example, specification: Specification) -> None:
    """Store the features, unless they are there already."""
    id, shapes = example.video.id, {name: values.shape for name, values in example.features.items()}
    current = store.current(id, specification)
    if current is None or current.shapes != shapes:
        store.write(id, example.features, specification=specification, absent=example.absent, wait=False)
