"""MSR-VTT 10K: official captions, splits and categories; features from a store, or those of 732 clips in one file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hoca.data.corpus import Corpus, Video, write_corpus
from hoca.data.official import check_counts, find_file, read_arrays, read_official
from hoca.data.problems import OnProblem, Problems, Report, log
from hoca.errors import UserError
from hoca.features.specification import specify
from hoca.features.store import FeatureStore
from hoca.files import sha256_of
from hoca.options import check_bounds, option

VIDEOS = {"train": 6513, "validation": 497, "test": 2990}
CAPTIONS_EACH = 20
SPLIT_NAMES = {"train": "train", "validate": "validation", "test": "test"}
TRAIN_ARCHIVE = "train_val_annotation.zip"
FILES = {"train_val_videodatainfo.json": TRAIN_ARCHIVE, "test_videodatainfo.json": "test_videodatainfo.json.zip"}
CLIP_SHAPES = {"image": (20, 1280), "motion": (20, 1024), "audio": (16, 1024)}


@dataclass(frozen=True)
class ClipOptions:
    fold: int | None = option(None, "test with this fold of the sources, from 0, and validate with the next one")
    folds: int = option(5, "how many folds there are", least=3)

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.fold is not None and not 0 <= self.fold < self.folds:
            raise UserError(f"fold={self.fold} must be at least 0 and below {self.folds}, the number of folds")


def read(source: Path | str) -> Corpus:
    """All captions, from the official JSON files or the zip archives that hold them."""
    source = Path(source)
    categories = _categories(source)
    videos: list[Video] = []
    for name, archive in FILES.items():
        content = read_official(source, name, archive, "msrvtt")
        try:
            annotation = json.loads(content)
            captions: dict[str, list[tuple[int, str]]] = {row["video_id"]: [] for row in annotation["videos"]}
            for sentence in annotation["sentences"]:
                captions[sentence["video_id"]].append((sentence["sen_id"], sentence["caption"]))
            videos += [_video(row, captions[row["video_id"]], categories) for row in annotation["videos"]]
        except (ValueError, KeyError, TypeError, IndexError, RecursionError, AttributeError) as error:
            raise UserError(f"{name} is not an MSR-VTT annotation ({error!r}): download it again") from None
    videos.sort(key=lambda video: _number(video.id))
    check_counts("MSR-VTT videos", Counter(video.split for video in videos), VIDEOS)
    for video in videos:
        check_counts(
            f"MSR-VTT captions of {video.id}", {video.split: len(video.captions)}, {video.split: CAPTIONS_EACH}
        )
    return Corpus("msrvtt", tuple(videos), categories)


def prepare(
    source: Path | str,
    out: Path | str,
    *,
    features: Path | str | None = None,
    on_problem: OnProblem = "stop",
    report: Report = log.info,
) -> Path:
    """Write a folder dataset with all official captions, and the features of a store that has them.

    Without `features` the captions alone are written: extract features into `out/features` before training.
    """
    out = Path(out)
    corpus = read(source)
    if features is not None:
        problems = Problems(on_problem, report)
        given, own = FeatureStore(features), FeatureStore(out / "features")
        own.folder.mkdir(parents=True, exist_ok=True)
        for video in corpus.videos:
            if video.id in given:
                link(given.path(video.id), own.path(video.id))
            else:
                problems.add("video without features", f"no features of {video.id} in {features}: extract them first")
        problems.close(str(features))
        corpus = Corpus(corpus.name, tuple(video for video in corpus.videos if video.id in own), corpus.categories)
    write_corpus(corpus, out)
    report(f"{out}: MSR-VTT, {len(corpus)} videos" + ("" if features else ", captions only"))
    return out


def prepare_clips(
    source: Path | str, out: Path | str, options: ClipOptions | None = None, *, report: Report = log.info
) -> Path:
    """Write a folder dataset of the clips in `clip-features.npz`: image, motion, and audio where there is sound.

    These clips all belong to the official train split, so they get a split of their own: by `clip_split`, or by folds
    of the sources that they were cut from.
    """
    source, out, options = Path(source), Path(out), options or ClipOptions()
    specification = clip_specification(source)
    official = read(source)
    store = FeatureStore(out / "features")
    videos = []
    for id, clip, absent in clip_features(source):
        video = official[id]
        split = clip_split(id) if options.fold is None else _split_of_fold(video, options.fold, options.folds)
        videos.append(Video(id, split, video.captions, video.category, video.attributes))
        if id in store and store.header(id).specification == specification:
            continue
        duration = video.attributes["end"] - video.attributes["start"]
        store.write(id, clip, specification=specification, absent=absent, duration=duration)
    videos.sort(key=lambda video: _number(video.id))
    write_corpus(Corpus("msrvtt-clips", tuple(videos), official.categories), out)
    counts = Counter(video.split for video in videos)
    report(f"{out}: MSR-VTT clips, " + ", ".join(f"{counts[split]} {split}" for split in VIDEOS))
    return out


def clip_split(id: str) -> str:
    """The split of a clip by its name alone: SHA-256 of the id modulo 8, 0 is test, 1 validation, the rest train."""
    remainder = int(hashlib.sha256(id.encode()).hexdigest(), 16) % 8
    return {0: "test", 1: "validation"}.get(remainder, "train")


def fold_of(url: str, folds: int) -> int:
    """The fold of all videos that were cut from one source, by its address alone."""
    return int(hashlib.sha256(url.encode()).hexdigest(), 16) % folds


def _split_of_fold(video: Video, fold: int, folds: int) -> str:
    distance = (fold_of(video.attributes["url"], folds) - fold) % folds
    return {0: "test", 1: "validation"}.get(distance, "train")


def clip_features(source: Path) -> Iterator[tuple[str, dict[str, np.ndarray], dict[str, str]]]:
    """Of each clip in `clip-features.npz`: its id, the features of its modalities and why others are absent."""
    shapes: dict[str, tuple[int | None, ...]] = {"ids": (None,), "audio_length": (None,)}
    for name, (steps, width) in CLIP_SHAPES.items():
        shapes |= {name: (None, steps, width), f"{name}_scale": (width,)}
    arrays = read_arrays(_packed_clips(source), shapes)
    for row, id in enumerate(map(str, arrays["ids"])):
        lengths = {"image": 20, "motion": 20, "audio": int(arrays["audio_length"][row])}
        clip = {
            name: restored(arrays[name][row, :steps], arrays[f"{name}_scale"])
            for name, steps in lengths.items()
            if steps
        }
        yield id, clip, {} if lengths["audio"] else {"audio": "the clip has no sound"}


def _packed_clips(source: Path) -> Path:
    packed = find_file(source, "clip-features.npz", "msrvtt")
    if packed is None:
        raise UserError(f"no clip-features.npz in {source}: put it beside the annotations")
    return packed


def restored(quantised: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The features that were quantised: x = scale · (q/255)²."""
    return scale * np.square(quantised.astype(np.float32) / 255)  # [T, width]


def clip_specification(source: Path) -> dict[str, Any]:
    """How `hoca extract` makes them, so that a model of these features takes files; and where they are from."""
    made = {"file": "clip-features.npz", "sha256": sha256_of(_packed_clips(source))}
    return {name: how | made for name, how in specify(image="efficientnet-lite2").items()}


def _video(row: dict[str, Any], captions: list[tuple[int, str]], categories: tuple[str, ...]) -> Video:
    texts = tuple(" ".join(text.split()) for _, text in sorted(captions))
    attributes = {"url": row["url"], "start": row["start time"], "end": row["end time"]}
    return Video(row["video_id"], SPLIT_NAMES[row["split"]], texts, categories[row["category"]], attributes)


def _categories(source: Path) -> tuple[str, ...]:
    """Names in the order of their numbers: lines `name<tab>number`."""
    names = {}
    lines = (
        read_official(source, "category.txt", TRAIN_ARCHIVE, "msrvtt").decode("utf-8", errors="replace").splitlines()
    )
    for place, line in enumerate(lines, start=1):
        name, _, number = line.strip().rpartition("\t")
        if not name or not number.isdecimal():
            raise UserError(f"category.txt, line {place}: expected a name, a tab and a number: download it again")
        names[int(number)] = name.strip()
    if sorted(names) != list(range(len(names))) or len(names) != 20:
        raise UserError(f"category.txt: found {len(names)} categories, expected 20, numbered from 0: download it again")
    return tuple(names[number] for number in sorted(names))


def link(given: Path, own: Path) -> None:
    """The same file under another name; a copy where the file system has no links."""
    if own.exists() and own.samefile(given):
        return
    own.unlink(missing_ok=True)
    try:
        os.link(given, own)
    except OSError:
        shutil.copyfile(given, own)


def _number(id: str) -> int:
    return int(id.removeprefix("video"))
