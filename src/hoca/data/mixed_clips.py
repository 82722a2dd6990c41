"""Two real clips one after the other, with the sound of one of them: which one do the captions tell of?

    hoca data prepare mixed-clips --source DATA --out data/mixed-0 fold=0 folds=3

From the MSR-VTT clips with sound. Pictures and motion of two clips follow one another; the sound, and with it the
captions, are those of one of them. Every pair of clips comes in both orders and with the sound of either, so whoever
does not listen is right in exactly half of the cases. Half of the pairs are of one category, in which sounds tell less.
No two splits share a source that clips were cut from (`url` in the annotations): one fold of the sources is for
testing, an eighth of the others for validation.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hoca.data.corpus import SPLITS, Corpus, Video, write_corpus
from hoca.data.msrvtt import clip_features, fold_of, read
from hoca.data.problems import Report, log
from hoca.errors import UserError
from hoca.features.specification import specify
from hoca.features.store import FeatureStore
from hoca.options import check_bounds, option
from hoca.progress import track

STEPS = 20  # of image and motion of a clip
VALIDATION = 8  # one in so many of the sources that are not for testing


@dataclass(frozen=True)
class MixedOptions:
    fold: int = option(0, "the fold of the sources that is for testing, from 0", least=0)
    folds: int = option(3, "how many folds there are", least=2)
    pairs: int = option(3, "training pairs that begin with each clip; each gives four mixed clips", least=1)
    test_pairs: int = option(2, "the same of validation and test", least=1)
    steps: int = option(10, "of image and motion that are kept of each clip", least=1, below=STEPS + 1)
    seed: int = option(0, "of the pairs", least=0)

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.fold >= self.folds:
            raise UserError(f"fold={self.fold} must be below {self.folds}, the number of folds")


def prepare(
    source: Path | str, out: Path | str, options: MixedOptions | None = None, *, report: Report = log.info
) -> Path:
    """Write a folder dataset of mixed clips, from the folder of the research data."""
    source, out, options = Path(source), Path(out), options or MixedOptions()
    features = {id: clip for id, clip, _ in clip_features(source) if "audio" in clip}
    corpus = mix(source, list(features), options)
    store, specification = FeatureStore(out / "features"), _specification(options)
    store.folder.mkdir(parents=True, exist_ok=True)
    wanted = {video.id for video in corpus.videos}
    for id in store.ids():  # what other options left there
        if id not in wanted:
            store.path(id).unlink()
    kept = (np.arange(options.steps) * STEPS + STEPS // 2) // options.steps  # in the middle of equal parts
    for video in track(corpus.videos, total=len(corpus), what="mixed clips"):
        if store.current(video.id, specification) is None:
            heard, *seen = (features[video.attributes[name]] for name in ("heard", "first", "second"))
            mixed = {name: np.concatenate([clip[name][kept] for clip in seen]) for name in ("image", "motion")}
            store.write(video.id, mixed | {"audio": heard["audio"]}, specification=specification, wait=False)
    write_corpus(corpus, out)
    counts = Counter(video.split for video in corpus.videos)
    report(f"{out}: mixed clips of {len(features)} clips, " + ", ".join(f"{counts[split]} {split}" for split in SPLITS))
    return out


def mix(source: Path, ids: Sequence[str], options: MixedOptions) -> Corpus:
    """The mixed clips of these clips, with the captions of the one heard, without any features."""
    official = read(source)
    parts: dict[str, list[Video]] = {split: [] for split in SPLITS}
    for video in (official[id] for id in ids):
        parts[_split(video.attributes["url"], options)].append(video)
    videos: list[Video] = []
    for place, split in enumerate(SPLITS):
        random = np.random.default_rng([options.seed, options.fold, options.folds, place])
        for pair in draw_pairs(parts[split], options.pairs if split == "train" else options.test_pairs, random):
            videos += _mixed(split, *pair)
    return Corpus("mixed-clips", tuple(videos))


def draw_pairs(clips: Sequence[Video], each: int, random: np.random.Generator) -> Iterator[tuple[Video, Video]]:
    """Pairs of clips of different sources, `each` drawn for every clip, every second one within its category."""
    seen: set[frozenset[str]] = set()
    within = False
    for _ in range(each):
        for clip in clips:
            within = not within
            others = [
                other
                for other in clips
                if other.attributes["url"] != clip.attributes["url"] and frozenset((clip.id, other.id)) not in seen
            ]
            # A category may have no other clip; then one of another category has to do.
            fitting = [other for other in others if (other.category == clip.category) == within] or others
            if fitting:
                other = fitting[random.integers(len(fitting))]
                seen.add(frozenset((clip.id, other.id)))
                yield clip, other


def other_of(video: Video) -> str:
    """The clip that is seen and not heard."""
    first, second, heard = (video.attributes[name] for name in ("first", "second", "heard"))
    return first if heard == second else second


def other_sounds(videos: Sequence[Video], seed: int = 0) -> dict[str, str]:
    """For each mixed clip, another one whose sound is of neither of its clips: what it is to be heard with instead."""
    random = np.random.default_rng(seed)
    found = {}
    for video in videos:
        own = {video.attributes["first"], video.attributes["second"]}
        donors = [other.id for other in videos if other.attributes["heard"] not in own]
        if not donors:
            raise UserError("all mixed clips are of the same two clips: there is no other sound to hear them with")
        found[video.id] = donors[random.integers(len(donors))]
    return found


def _split(url: str, options: MixedOptions) -> str:
    if fold_of(url, options.folds) == options.fold:
        return "test"
    number = int(hashlib.sha256(f"validation {url}".encode()).hexdigest(), 16)
    return "train" if number % VALIDATION else "validation"


def _mixed(split: str, one: Video, other: Video) -> Iterator[Video]:
    """Both orders, the sound of either."""
    for first, second in ((one, other), (other, one)):
        for heard in (first, second):
            attributes = {
                "first": first.id,
                "second": second.id,
                "heard": heard.id,
                "sources": [first.attributes["url"], second.attributes["url"]],
                "within": first.category == second.category,
            }
            yield Video(f"{first.id}+{second.id}-{heard.id}", split, heard.captions, attributes=attributes)


def _specification(options: MixedOptions) -> dict[str, Any]:
    made = {"file": "clip-features.npz", "mixed": f"two clips, {options.steps} steps of each"}
    return {name: how | made for name, how in specify(image="efficientnet-lite2").items()}
