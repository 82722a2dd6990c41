"""MSVD: 1,970 short clips; the English captions and the standard split by number, all references for evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hoca.data.corpus import Corpus, Video, write_corpus
from hoca.data.official import check_counts, find_file, read_arrays, read_official
from hoca.data.problems import Report, log
from hoca.errors import UserError
from hoca.features.store import FeatureStore
from hoca.files import sha256_of

VIDEOS = {"train": 1200, "validation": 100, "test": 670}
CAPTIONS = {"train": 48_774, "validation": 4_290, "test": 27_763}
FILES = {"train": "train", "validation": "val", "test": "test"}
STEPS, WIDTH = 20, 512


def read(source: Path | str) -> Corpus:
    """All captions, from `sents_lc_nopunc.zip` or the three text files that it holds."""
    source = Path(source)
    clips = _clips(source)
    videos = []
    for split, short in FILES.items():
        name = f"sents_{short}_lc_nopunc.txt"
        captions: dict[str, list[str]] = {}
        for id, caption in _pairs(read_official(source, name, "sents_lc_nopunc.zip", "msvd"), name):
            captions.setdefault(id, []).append(caption)
        videos += [
            Video(id, split, tuple(captions[id]), None, clips.get(id, {})) for id in sorted(captions, key=_number)
        ]
    check_counts("MSVD videos", Counter(video.split for video in videos), VIDEOS)
    check_counts("MSVD captions", _caption_counts(videos), CAPTIONS)
    if [_number(video.id) for video in videos] != list(range(1, len(videos) + 1)):
        raise UserError(f"MSVD in {source}: videos are not vid1 … vid{len(videos)}: download the official files again")
    return Corpus("msvd", tuple(videos))


def prepare(source: Path | str, out: Path | str, *, report: Report = log.info) -> Path:
    """Write a folder dataset: all captions, and the modalities `image` [20, 512] and `change` [19, 512].

    `change` is the difference of neighbouring frames of `image`: a second modality where there is no sound.
    """
    source, out = Path(source), Path(out)
    corpus = read(source)
    packed = find_file(source, "features.npz", "msvd")
    if packed is None:
        raise UserError(f"no features.npz in {source}: put the MSVD features beside the captions")
    rows = len(corpus)
    arrays = read_arrays(packed, {"q": (rows, STEPS, WIDTH), "scale": (WIDTH,), "zero": (WIDTH,)})
    specification = _specification(sha256_of(packed))
    store = FeatureStore(out / "features")
    for video, quantised in zip(corpus.videos, arrays["q"], strict=True):
        if video.id in store and store.header(video.id).specification == specification:
            continue
        image = arrays["zero"] + arrays["scale"] * quantised  # [20, 512]
        features = {"image": image, "change": np.diff(image, axis=0)}
        duration = video.attributes.get("end", 0) - video.attributes.get("start", 0) or None
        store.write(video.id, features, specification=specification, duration=duration)
    write_corpus(corpus, out)
    report(f"{out}: MSVD, {rows} videos, {sum(CAPTIONS.values())} captions, image {WIDTH} wide and change {WIDTH} wide")
    return out


def _specification(digest: str) -> dict[str, Any]:
    made = {"backbone": "msvd-vgg-pca", "weights": None, "sampling": "even", "file": "features.npz", "sha256": digest}
    return {
        "image": {**made, "steps": STEPS, "width": WIDTH},
        "change": {**made, "steps": STEPS - 1, "width": WIDTH, "difference": "image"},
    }


def _pairs(content: bytes, name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(content.decode("utf-8", errors="replace").rstrip("\n").split("\n"), start=1):
        id, tab, caption = line.partition("\t")
        if not tab or not id.startswith("vid") or not id[3:].isdecimal() or not caption.strip():
            raise UserError(f"{name}, line {number}: expected vidN, a tab and a caption: download it again")
        yield id, caption.strip()


def _clips(source: Path) -> dict[str, dict[str, Any]]:
    """Where each clip was cut from, where `youtube_mapping.txt` is at hand: lines `<id>_<start>_<end> vidN`."""
    path = find_file(source, "youtube_mapping.txt", "msvd")
    clips = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path else ():
        clip, _, id = line.strip().partition(" ")
        youtube, *times = clip.rsplit("_", 2)
        if len(times) == 2 and all(time.isdecimal() for time in times):
            clips[id] = {"youtube": youtube, "start": int(times[0]), "end": int(times[1])}
    return clips


def _number(id: str) -> int:
    return int(id.removeprefix("vid"))


def _caption_counts(videos: list[Video]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for video in videos:
        counts[video.split] += len(video.captions)
    return counts
