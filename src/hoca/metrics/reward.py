"""Rewards of sampled captions: CIDEr-D and ROUGE-L of word numbers, without a string in sight; METEOR of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hoca.errors import UserError
from hoca.metrics.cider import Cider
from hoca.metrics.meteor import Meteor
from hoca.metrics.ngrams import Floats, Ints, Sentences
from hoca.metrics.references import Candidates, References
from hoca.metrics.rouge import Rouge
from hoca.text.tokenizer import tokenize


class CiderReward:
    """Rewards of sampled captions against fixed references, both as the vocabulary's word ids.

    `references` maps a video to its captions (sequences of ids). Ids in `ignored`, such as padding and <bos>, do not
    count; a caption ends before the first id in `ends`. The corpus that weighs the n-grams is all of `references`.
    The reward is CIDEr-D + `rouge_weight` · ROUGE-L.
    """

    def __init__(
        self,
        references: Mapping[Any, Sequence[Sequence[int]]],
        *,
        ends: Sequence[int] = (),
        ignored: Sequence[int] = (),
        rouge_weight: float = 0.0,
    ) -> None:
        if len(references) < 2:
            raise UserError("CIDEr weighs words by how few videos have them: give the references of two videos or more")
        self._row = {video: row for row, video in enumerate(references)}
        self._ends = np.array(ends, np.int64)
        self._ignored = np.array(ignored, np.int64)
        per_video = [len(captions) for captions in references.values()]
        captions = [caption for captions in references.values() for caption in captions]
        self._references = References.of(self._sentences(_pad(captions)), per_video)
        self._cider = Cider(self._references)
        self._rouge_weight = rouge_weight
        self._rouge = Rouge(self._references) if rouge_weight else None

    def __call__(self, videos: Sequence[Any], captions: NDArray[np.integer[Any]]) -> Floats:
        """Reward of each row of `captions` [S, L], a caption of `videos[s]`; a video may come several times. [S]"""
        rows = _rows(videos, self._row)
        sentences = self._sentences(np.asarray(captions))
        counted = Candidates(sentences, self._references.table.count(sentences))
        rewards = self._cider.of_rows(counted, rows)
        if self._rouge is not None:
            rewards += self._rouge_weight * self._rouge.of_rows(sentences, rows)
        return rewards

    def of_references(self) -> dict[Any, list[float]]:
        """CIDEr-D of each video's captions, each against the others of the same video: how much they agree."""
        scores = self._cider.of_references()
        parts = np.split(scores, np.cumsum(self._references.per_video)[:-1])
        return {video: part.tolist() for video, part in zip(self._row, parts, strict=True)}

    def _sentences(self, captions: NDArray[np.integer[Any]]) -> Sentences:
        """The words that count, of a batch [S, L] padded with -1 or with ignored ids."""
        ended = np.isin(captions, self._ends).cumsum(axis=1) > 0  # [S, L]
        counts = ~ended & (captions >= 0) & ~np.isin(captions, self._ignored)
        return Sentences(captions[counts].astype(np.int64), counts.sum(1).astype(np.int64))


class MeteorReward:
    """METEOR of sampled captions against fixed references: `references` maps a video to its captions."""

    def __init__(self, references: Mapping[Any, Sequence[str]]) -> None:
        self._row = {video: row for row, video in enumerate(references)}
        self._meteor = Meteor([[tokenize(caption) for caption in captions] for captions in references.values()])

    def __call__(self, videos: Sequence[Any], captions: Sequence[str]) -> Floats:
        """Reward of each caption, of `videos[s]`, its words separated by spaces; a video may come several times. [S]"""
        return self._meteor.of_rows([caption.split() for caption in captions], _rows(videos, self._row))


def _rows(videos: Sequence[Any], row: Mapping[Any, int]) -> Ints:
    """The number of each video among those that have references."""
    unknown = [video for video in videos if video not in row]
    if unknown:
        raise UserError(f"{len(unknown)} videos have no references, the first is {unknown[0]!r}")
    return np.array([row[video] for video in videos], np.int64)


def _pad(captions: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    padded = np.full((len(captions), max(map(len, captions), default=0)), -1, np.int64)
    for row, caption in enumerate(captions):
        padded[row, : len(caption)] = caption
    return padded
