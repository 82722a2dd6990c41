"""All metrics at once, over references that are prepared once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hoca.errors import UserError
from hoca.metrics import bleu
from hoca.metrics.cider import Cider
from hoca.metrics.meteor import Meteor
from hoca.metrics.references import Candidates, References
from hoca.metrics.rouge import Rouge
from hoca.text.tokenizer import tokenize

ALL = (*bleu.NAMES, "ROUGE-L", "METEOR", "CIDEr")


@dataclass(frozen=True)
class Scores:
    """Scores as coco-caption gives them (0.446, not 44.6): over the corpus, and for each video id."""

    corpus: dict[str, float] = field(default_factory=dict)
    per_video: dict[Any, dict[str, float]] = field(default_factory=dict)


class Evaluator:
    """Scores candidates against `references` (video id → captions), again and again at little cost.

    `document_frequencies` (word n-gram, a tuple of words → number of documents) and `documents` (how many there were)
    replace the corpus that CIDEr otherwise counts in the references.
    """

    def __init__(
        self,
        references: Mapping[Any, Sequence[str]],
        *,
        document_frequencies: Mapping[tuple[str, ...], float] | None = None,
        documents: int | None = None,
    ) -> None:
        if not references:
            raise UserError("there are no references to evaluate against: give at least one video with its captions")
        for video, captions in references.items():
            if isinstance(captions, str) or not captions:
                raise UserError(f"references of video {video!r} must be a list of at least one caption")
        if (document_frequencies is None) != (documents is None):
            raise UserError("document_frequencies and documents (how many were counted) belong together: give both")
        self.ids = list(references)
        self._tokens = [[_words(caption) for caption in captions] for captions in references.values()]
        self._frequencies = document_frequencies
        self._documents = documents

    def evaluate(self, candidates: Mapping[Any, str], metrics: Sequence[str] = ALL) -> Scores:
        """Scores of one candidate per video; `metrics` limits them to some of `ALL`."""
        metrics = _known(metrics)
        _check_ids(self.ids, candidates)
        tokens = [_words(_text(video, candidates[video])) for video in self.ids]
        counted = Candidates.of(tokens, self._references)
        corpus: dict[str, float] = {}
        per_video: dict[str, Any] = {}
        if not set(metrics).isdisjoint(bleu.NAMES):
            totals, each = bleu.bleu(self._references, counted)
            corpus.update(zip(bleu.NAMES, totals, strict=True))
            per_video.update(zip(bleu.NAMES, each, strict=True))
        if "ROUGE-L" in metrics:
            per_video["ROUGE-L"] = self._rouge(counted)
            corpus["ROUGE-L"] = float(np.mean(per_video["ROUGE-L"]))
        if "CIDEr" in metrics:
            per_video["CIDEr"] = self._cider(counted)
            corpus["CIDEr"] = float(np.mean(per_video["CIDEr"]))
        if "METEOR" in metrics:
            corpus["METEOR"], per_video["METEOR"] = self._meteor(tokens)
        rows = zip(*(per_video[name].tolist() for name in metrics), strict=True)
        return Scores(
            {name: corpus[name] for name in metrics},
            {video: dict(zip(metrics, row, strict=True)) for video, row in zip(self.ids, rows, strict=True)},
        )

    @cached_property
    def _references(self) -> References:
        return References(self._tokens)

    @cached_property
    def _rouge(self) -> Rouge:
        return Rouge(self._references)

    @cached_property
    def _meteor(self) -> Meteor:
        return Meteor(self._tokens)

    @cached_property
    def _cider(self) -> Cider:
        if self._frequencies is None and len(self.ids) == 1:
            raise UserError(
                "CIDEr of a single video is always 0, it weighs words by how few videos have them: "
                "give document_frequencies and documents, or leave CIDEr out of metrics"
            )
        return Cider(self._references, self._frequencies, self._documents)


def evaluate(
    references: Mapping[Any, Sequence[str]], candidates: Mapping[Any, str], metrics: Sequence[str] = ALL
) -> Scores:
    """Scores of `candidates` (video id → caption) against `references` (video id → captions)."""
    return Evaluator(references).evaluate(candidates, metrics)


def _words(caption: str) -> list[str]:
    """Tokens as the metrics count them: a fraction with its number, `1 1/2`, is one token but two words."""
    tokens = tokenize(caption)
    if any(sign in caption for sign in "/(<"):  # fractions, telephones and tags alone hold spaces
        return " ".join(tokens).split()
    return tokens


def _known(metrics: Sequence[str]) -> tuple[str, ...]:
    chosen = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for name in chosen:
        if name not in ALL:
            raise UserError(f"unknown metric {name!r}: choose among {', '.join(ALL)}")
    return chosen


def _text(video: Hashable, candidate: Any) -> str:
    if not isinstance(candidate, str):
        raise UserError(f"the candidate of video {video!r} is {type(candidate).__name__}, not one caption (str)")
    return candidate


def _check_ids(ids: Sequence[Any], candidates: Mapping[Any, str]) -> None:
    missing = [video for video in ids if video not in candidates]
    if missing:
        raise UserError(f"{len(missing)} of {len(ids)} videos have no candidate, the first is {missing[0]!r}")
    if len(candidates) > len(ids):
        known = set(ids)
        unknown = [video for video in candidates if video not in known]
        raise UserError(f"{len(unknown)} candidates have no references, the first is {unknown[0]!r}")
