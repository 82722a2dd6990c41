"""From a video file to a sentence: a trained captioner together with the features it was trained on."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hoca.captioning.caption import Caption, SentenceScore, ViewCaption
from hoca.captioning.segments import Film, Segment, captioned, check, merged
from hoca.checkpoint import Checkpoint, load_model, model_facts, write_checkpoint
from hoca.devices import choose_device
from hoca.errors import UnknownName, UnreadableVideo, UserError, nearest
from hoca.generation import Confidence, Hypotheses, Search, evidence_of, inference
from hoca.media.preview import PICTURES
from hoca.models import CaptionModel, Explanation, Memory
from hoca.threads import use_threads

if TYPE_CHECKING:
    from hoca.features import Extracted, Extractor
    from hoca.media import DecodeLimits, Decoders

LARGEST = 65504  # that float16 holds


class VideoCaptioner:
    """A trained model together with the features it was trained on and how it searches, so that it takes files."""

    def __init__(
        self,
        model: CaptionModel,
        specification: dict[str, Any],
        search: Search,
        confidence: Confidence | None = None,
    ) -> None:
        self.model, self.specification, self.search, self.confidence = model, specification, search, confidence
        self._limits: DecodeLimits | None = None

    def __enter__(self) -> VideoCaptioner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> VideoCaptioner:
        return self  # `dataclasses.asdict` of a caption would copy the whole model

    def __repr__(self) -> str:
        return f"VideoCaptioner({self.model.name}, {', '.join(self.model.config.modalities)}, {self.device})"

    def caption(
        self,
        video: Path | str,
        search: Search | None = None,
        *,
        category: str | None = None,
        start: float = 0.0,
        end: float | None = None,
        pictures: int = 0,
        limits: DecodeLimits | None = None,
        decoders: Decoders | None = None,
        explain: bool = True,
        on_stage: Callable[[str], None] = lambda stage: None,
        computing: Callable[[Callable[[], Caption]], Caption] = lambda work: work(),
    ) -> Caption:
        """The sentence that the model finds for a video file.

        category: the name of the video's category, for a model that was trained with them. start, end: seconds, where
        only a part is meant; None = to the end. pictures: how many a preview of the clip has, which a report shows; 0 =
        no preview. limits: what this file may cost; None = `limits`.
        decoders: processes to decode in, with limits of their own; None = the captioner's one. explain: False leaves
        `explanation` and `views` empty, which saves their time. on_stage: is told what is being done: decoding,
        features, words. computing: where the networks run, for a server of many threads.
        """
        begun = time.perf_counter()
        number = self.category(category)
        extractor = self.extractor
        on_stage("decoding")
        loaded = time.perf_counter()
        part = (start, math.inf if end is None else end) if start or end is not None else None
        decoded, shown = extractor.decode(video, pictures=pictures, limits=limits, decoders=decoders, part=part)
        seen = time.perf_counter()

        def compute() -> Caption:
            on_stage("features")
            started = time.perf_counter()
            extracted = extractor.features([decoded])[0]
            if (refusal := _refusal(video, extracted)) is not None:
                raise refusal
            made = time.perf_counter()
            on_stage("words")
            caption = self.describe(extracted, search, category=number, explain=explain)
            return replace(caption, seconds={"features": made - started} | caption.seconds)

        caption = computing(compute)
        seconds = {"backbones": loaded - begun, "decoding": seen - loaded} | caption.seconds
        return replace(caption, seconds=seconds, preview=shown, video=os.fspath(video), part=part, made_by=self)

    def segments(
        self,
        video: Path | str,
        search: Search | None = None,
        *,
        every: float | None = None,
        scenes: bool = False,
        start: float = 0.0,
        end: float | None = None,
        category: str | None = None,
        pictures: int = 0,
        decoders: Decoders | None = None,
        explain: bool = True,
    ) -> Iterator[Segment]:
        """A sentence for every so many seconds of a film or for each scene, as it goes; neighbours that say the same
        are one. Memory does not grow with the length of the film.

        start, end: seconds; None = to the end. The rest is as for `caption`. The limits hold for each segment alone.
        """
        check(every, scenes)
        film = Film.measure(self, video, start, end, decoders)
        spans = film.spans(self, every, scenes, decoders)
        options: dict[str, Any] = {"search": search, "category": category, "pictures": pictures, "decoders": decoders}
        yield from merged(captioned(self, film, spans, explain=explain, **options))

    def captions(
        self,
        videos: Iterable[Path | str | UserError],
        search: Search | None = None,
        *,
        category: str | None = None,
        batch_size: int = 8,
        decoders: Decoders | None = None,
        explain: bool = True,
    ) -> Iterator[Caption | UserError]:
        """A sentence for each of many files, in their order, in less time than `caption` takes for them one by one.

        While the words of some are looked for, the next files go through the networks and those after them are
        decoded. A file that cannot be captioned gives its error in place of a sentence, and the rest follow; an error
        among the files comes out in its place. batch_size: files whose words are looked for at once, after a first
        few that come sooner. The rest is as for `caption`. On a CPU, torch works with one thread per operation until
        the last sentence is taken.
        """
        from hoca.features.ahead import extract_ahead

        number = self.category(category)
        for group in extract_ahead(self.extractor, videos, decoders=decoders, batch_size=batch_size):
            answers: list[UserError | Extracted] = [
                each.result if isinstance(each.result, UserError) else _refusal(each.path, each.result) or each.result
                for each in group
            ]
            usable = [answer for answer in answers if not isinstance(answer, UserError)]
            found = iter(self.describe_all(usable, search, category=number, explain=explain))
            for each, answer in zip(group, answers, strict=True):
                if isinstance(answer, UserError):
                    yield answer
                else:
                    caption = next(found)
                    seconds = each.seconds | caption.seconds
                    yield replace(caption, seconds=seconds, video=os.fspath(each.path), made_by=self)

    def describe(
        self, extracted: Extracted, search: Search | None = None, *, category: int | None = None, explain: bool = True
    ) -> Caption:
        """The sentence for features that were made as the specification says; category: its number."""
        return self.describe_all([extracted], search, category=category, explain=explain)[0]

    def describe_all(
        self,
        videos: Sequence[Extracted],
        search: Search | None = None,
        *,
        category: int | None = None,
        explain: bool = True,
    ) -> list[Caption]:
        """The sentences for the features of several videos; those with features of the same lengths are searched at
        once."""
        alike: dict[Hashable, list[int]] = {}
        for place, video in enumerate(videos):
            shapes = tuple((name, values.shape) for name, values in video.features.items())
            alike.setdefault(shapes, []).append(place)
        found: dict[int, Caption] = {}
        for places in alike.values():
            captions = self._describe([videos[place] for place in places], search, category, explain)
            found |= zip(places, captions, strict=True)
        return [found[place] for place in range(len(videos))]

    def _describe(
        self, videos: list[Extracted], search: Search | None, category: int | None, explain: bool
    ) -> list[Caption]:
        begun = time.perf_counter()
        # float16 is what a feature store holds: the same file gives the same numbers as in training.
        given = {
            name: torch.stack([torch.from_numpy(video.features[name]).half() for video in videos]).float()
            for name in videos[0].features
        }  # [B, T_m, D_m]
        features = {name: values.to(self.device) for name, values in given.items()}
        number = None if category is None else torch.full((len(videos),), category)
        with use_threads(1), inference(self.model):  # the words of a few videos are too little for a second thread
            memories = self.model.views(features, {}, number) if explain else [self.model.encode(features, {}, number)]
            found, *others = [(search or self.search)(self.model, memory) for memory in memories]
            looked = self._looked(found, memories[0]) if explain else None
            sure = self._confidence(found, memories[0])
        texts, logprobs = found.texts(self.model.vocabulary), found.logprob.tolist()
        detected = torch.zeros_like(found.score) if found.detected is None else found.detected
        parts = torch.stack([found.score - detected, detected], dim=-1).tolist()  # [B, W, 2]
        views = self._views([found, *others]) if others else [()] * len(videos)
        took = (time.perf_counter() - begun) / len(videos)
        return [
            Caption(
                text=texts[row][0],
                words=(words := tuple(texts[row][0].split())),
                logprob=logprobs[row][0],
                confidence=sure[row],
                explanation=looked.of_caption(row, len(words)) if looked else Explanation(),
                alternatives=tuple(zip(texts[row][1:], logprobs[row][1:], strict=False)),
                absent=video.absent,
                seconds={"words": took},
                scores=tuple(SentenceScore(*each) for each in parts[row][: len(texts[row])]),
                views=views[row],
                duration=video.duration,
            )
            for row, video in enumerate(videos)
        ]

    def _looked(self, found: Hypotheses, memory: Memory) -> Explanation | None:
        """What the words of the best sentences looked at; others of the beam may be longer."""
        best = found.words[:, :1]
        longest = int((best != self.model.vocabulary.pad).sum(2).max())
        return self.model.look(memory, best[:, :, : longest - 1])

    def _views(self, found: Sequence[Hypotheses]) -> list[tuple[ViewCaption, ...]]:
        """The best sentence of each view, for each video, in the order of the log-probability of a word."""
        ranked: list[list[ViewCaption]] = [[] for _ in found[0].words]
        for number, of_view in enumerate(found, 1):
            said = zip(of_view.texts(self.model.vocabulary), of_view.logprob[:, 0].tolist(), strict=True)
            for views, (texts, logprob) in zip(ranked, said, strict=True):
                views.append(ViewCaption(number, texts[0], logprob / (len(texts[0].split()) + 1)))
        return [tuple(sorted(views, key=lambda view: -view.logprob_per_word)) for views in ranked]

    def _confidence(self, found: Hypotheses, memory: Memory) -> list[float | None]:
        if self.confidence is None or found.words.shape[1] == 1:  # of a greedy search, nothing agrees with anything
            return [None] * len(found.words)
        seen = torch.zeros_like(found.score)
        if memory.evidence is not None:
            seen = evidence_of(found, memory.evidence, self.model.vocabulary.pad)
        return [round(value, 3) for value in self.confidence(found, seen).tolist()]

    def category(self, name: str | None) -> int | None:
        """The number of a category; one that the model does not know is an error that names those it knows."""
        if name is None:
            return None
        known = self.model.config.categories
        if not known:
            raise UserError(f"category={name!r}: this model was trained without categories, leave it out")
        if name not in known:
            raise UnknownName(f"category={name!r} is unknown to this model: {nearest(name, known)}")
        return known.index(name)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def limits(self) -> DecodeLimits | None:
        """What one file may cost; None = the usual."""
        return self._limits

    @limits.setter
    def limits(self, limits: DecodeLimits | None) -> None:
        self._limits = limits
        if "extractor" in self.__dict__:
            self.extractor.limits = limits
            self.close()  # the next file starts a process that keeps to them

    @property
    def pictures(self) -> int:
        """How many pictures a preview needs to show what this model's words looked at."""
        return int(self.specification.get("image", {}).get("steps", PICTURES))

    @cached_property
    def extractor(self) -> Extractor:
        """What makes the features of files, its backbones loaded at the first file and kept for the next ones."""
        from hoca.features import BACKBONES, Extractor

        for modality in self.model.config.modalities:
            backbone = self.specification.get(modality, {}).get("backbone", "unknown")
            if backbone is None or (backbone not in BACKBONES and not backbone.startswith("hf:")):
                raise UserError(
                    f"this model was trained on {modality} features that hoca cannot make (backbone {backbone}), so it "
                    f"takes no files: hoca evaluate captions stored features"
                )
        return Extractor(self.specification, device=self.device.type, limits=self.limits)

    def save(self, path: Path | str) -> None:
        """Write the model to a file that `load` reads: weights, words, how its features are made, how it searches."""
        weights = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        facts = model_facts(self.model, self.specification, self.search)
        if self.confidence is not None:
            facts["confidence"] = self.confidence.to_json()
        write_checkpoint(Path(path), Checkpoint(weights, facts))

    def close(self) -> None:
        """End the process that decodes files; the next file starts another."""
        if "extractor" in self.__dict__:
            self.extractor.close()


def load(model: Path | str | None = None, device: str = "auto") -> VideoCaptioner:
    """A captioner, ready to caption: the one that hoca ships, a run folder's best checkpoint or a checkpoint file.

    In a `with` statement it ends its decoding process after use. device: `auto` is the GPU if there is one.
    """
    loaded = load_model(model)
    return VideoCaptioner(
        loaded.model.to(choose_device(device)), loaded.specification, loaded.search, loaded.confidence
    )


def _refusal(video: Path | str, extracted: Extracted) -> UnreadableVideo | None:
    """Why there is nothing to caption in these features; None where there is."""
    if not extracted.features:
        why = "; ".join(dict.fromkeys(extracted.absent.values()))
        return UnreadableVideo(f"{video}: {why}")
    for modality, values in extracted.features.items():
        if not (np.abs(values) <= LARGEST).all():
            return UnreadableVideo(f"{video}: its {modality} features are not finite, or huge: is it damaged?")
    return None
