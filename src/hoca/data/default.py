"""The data of the model that hoca ships: MSR-VTT clips and frames, photos, and a vocabulary that MSVD's captions widen.

Three folder datasets come of it, `clips`, `videos` (clips and frames) and `all` (photos too), with

    train        clips with picture, motion and sound; of other official-train videos some frames; photos
    validation   the frames of official-val videos
    test         the clips that are set aside: an eighth of them, another one for each `fold`

and `vocabulary.json`, the words that occur often enough in the training captions and in those of MSVD. What a video
lacks is a missing modality. No official validation or test video is in `train`, nor any that is set aside.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hoca.data import msvd
from hoca.data.corpus import Corpus, Video, write_corpus
from hoca.data.msrvtt import CLIP_SHAPES, clip_features, link, read, restored
from hoca.data.official import find_file, read_arrays
from hoca.data.problems import Report, log
from hoca.data.vocabulary import write_vocabulary
from hoca.errors import UserError
from hoca.features.specification import specify
from hoca.features.store import FeatureStore
from hoca.text import Vocabulary

FOLDS = 8
FRAMES = "msrvtt-frames"
PHOTOS = ("flickr8k", "coco")
SPLITS = {"train": "train", "val": "validation"}
ABSENT = dict.fromkeys(("motion", "audio"), "only pictures of it are known")


@dataclass(frozen=True)
class Options:
    fold: int = 0  # which eighth of the clips is set aside
    min_count: int = 8  # of a word, to be in the vocabulary

    def __post_init__(self) -> None:
        if not 0 <= self.fold < FOLDS:
            raise UserError(f"fold={self.fold}: choose 0 to {FOLDS - 1}")


def set_aside(id: str, fold: int) -> bool:
    """Whether a clip is kept from training in this fold, by its name alone."""
    return int(hashlib.sha256(id.encode()).hexdigest(), 16) % FOLDS == fold


def prepare(source: Path | str, out: Path | str, options: Options | None = None, *, report: Report = log.info) -> Path:
    """Write `clips`, `videos`, `all` and `vocabulary.json` into a folder, from the folder of the research data."""
    source, out, options = Path(source), Path(out), options or Options()
    store = FeatureStore(out / "all" / "features")
    clips = [_stored(store, *each) for each in _clips(source, options.fold)]
    videos = [*clips, *(_stored(store, *each) for each in _frames(source))]
    photos = [
        _stored(store, photo, {"image": features}, ABSENT)
        for name in PHOTOS
        for photo, features in _pictures(source, name)
        if photo.split == "train"
    ]
    for name, members in {"clips": clips, "videos": videos, "all": [*videos, *photos]}.items():
        write_corpus(Corpus(f"default-{name}", tuple(members)), out / name)
        own = FeatureStore(out / name / "features")
        own.folder.mkdir(parents=True, exist_ok=True)
        for video in members if own.folder != store.folder else ():
            link(store.path(video.id), own.path(video.id))
    captions = [caption for video in (*videos, *photos) if video.split == "train" for caption in video.captions]
    captions += msvd.read(source).captions("train")
    write_vocabulary(Vocabulary.build(captions, options.min_count), out / "vocabulary.json")
    counts = Counter(video.split for video in videos)
    report(
        f"{out}: {counts['train']} videos and {len(photos)} photos to learn from, {counts['validation']} official-val "
        f"videos to validate with, {counts['test']} clips set aside (fold {options.fold})"
    )
    return out


Found = tuple[Video, Mapping[str, np.ndarray], Mapping[str, str]]  # a video, its features, what is absent and why


def _clips(source: Path, fold: int) -> Iterator[Found]:
    official = read(source)
    for id, features, absent in clip_features(source):
        if official[id].split != "train":
            raise UserError(f"clip {id} is of the official {official[id].split} split: give the clips as published")
        yield Video(id, "test" if set_aside(id, fold) else "train", official[id].captions), features, absent


def _frames(source: Path) -> Iterator[Found]:
    """Frames of the official-train and official-val videos of which no clip is here, by their official splits."""
    clips = {id for id, _, _ in clip_features(source)}
    official = read(source)
    for video, features in _pictures(source, FRAMES):
        if official[video.id].split != video.split:
            raise UserError(f"{FRAMES}: {video.id} is of the official {official[video.id].split} split: fetch it again")
        if video.id not in clips:
            yield video, {"image": features}, ABSENT


def _pictures(source: Path, name: str) -> Iterator[tuple[Video, np.ndarray]]:
    """The captioned pictures of `NAME.jsonl.gz`, in order, with their features [T, 1280] from `NAME.npz`."""
    packed, told = (find_file(source, f"{name}{end}", "images") for end in (".npz", ".jsonl.gz"))
    if packed is None or told is None:
        raise UserError(f"{name}.npz or {name}.jsonl.gz is missing in {source}: put both there")
    width = CLIP_SHAPES["image"][1]
    arrays = read_arrays(packed, {"q": (None, width), "scale": (width,)})
    try:
        with gzip.open(told, "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                id = f"{name}-{row['id']}" if name in PHOTOS else row["id"]
                first, end = row["rows"]
                video = Video(id, SPLITS[row["split"]], tuple(row["captions"]))
                yield video, restored(arrays["q"][first:end], arrays["scale"])
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{told} does not tell the captions of {name}.npz ({error!r}): fetch it again") from None


def _stored(store: FeatureStore, video: Video, features: Mapping[str, np.ndarray], absent: Mapping[str, str]) -> Video:
    specification = specify(image="efficientnet-lite2")  # all of it was made so, whatever file it came in
    if video.id not in store or store.header(video.id).specification != specification:
        store.write(video.id, features, specification=specification, absent=absent, wait=False)
    return video
