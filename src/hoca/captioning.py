"""From a video file to a sentence: a trained captioner together with the features it was trained on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hoca.checkpoint import load_model
from hoca.devices import choose_device
from hoca.errors import UserError, nearest
from hoca.generation import Confidence, Hypotheses, Search, evidence_of, inference
from hoca.media.preview import PICTURES
from hoca.models import CaptionModel, Explanation, Memory
from hoca.models.trees import map_tensors

if TYPE_CHECKING:
    from hoca.features import Extracted, Extractor
    from hoca.media import DecodeLimits, Decoders, Preview

UNSURE = 0.2  # confidence below which a sentence is shown as unsure


@dataclass(frozen=True)
class Caption:
    text: str
    words: tuple[str, ...]
    logprob: float  # log p(sentence, <eos> included)
    confidence: float | None  # probability that it is as good as a person's; None: the model was not fitted to tell
    explanation: Explanation  # what each word looked at: α_g and α [L, T_m], β [L], …, where the model can tell
    alternatives: tuple[tuple[str, float], ...]  # the other sentences of the beam with their log-probabilities
    absent: dict[str, str]  # modality → why it is missing
    seconds: dict[str, float]  # what took how long
    preview: Preview | None = None  # of the clip, where it was asked for

    def unsure(self, least: float = UNSURE) -> bool:
        return self.confidence is not None and self.confidence < least

    def to_json(self) -> dict[str, Any]:
        """What `hoca caption --json` and the API tell of it."""
        return {
            "text": self.text,
            "logprob": self.logprob,
            "confidence": self.confidence,
            "alternatives": [{"text": text, "logprob": p} for text, p in self.alternatives],
            "absent": self.absent,
            "seconds": {stage: round(seconds, 4) for stage, seconds in self.seconds.items()},
        }


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

    def caption(
        self,
        video: Path | str,
        search: Search | None = None,
        *,
        category: str | None = None,
        pictures: int = 0,
        limits: DecodeLimits | None = None,
        decoders: Decoders | None = None,
        on_stage: Callable[[str], None] = lambda stage: None,
        computing: Callable[[Callable[[], Caption]], Caption] = lambda work: work(),
    ) -> Caption:
        """The sentence that the model finds for a video file.

        category: the name of the video's category, for a model that was trained with them. pictures: how many a preview
        of the clip has, which a report shows; 0 = no preview. limits: what this file may cost; None = `limits`.
        decoders: processes to decode in, with limits of their own; None = the captioner's one. on_stage: is told what
        is being done: decoding, features, words. computing: where the networks run, for a server of many threads.
        """
        begun = time.perf_counter()
        number = self.category(category)
        extractor = self.extractor
        on_stage("decoding")
        loaded = time.perf_counter()
        decoded, shown = extractor.decode(video, pictures=pictures, limits=limits, decoders=decoders)
        seen = time.perf_counter()

        def compute() -> Caption:
            on_stage("features")
            started = time.perf_counter()
            extracted = extractor.features([decoded])[0]
            if not extracted.features:
                why = "; ".join(dict.fromkeys(extracted.absent.values()))
                raise UserError(f"{video}: nothing to caption ({why})")
            made = time.perf_counter()
            on_stage("words")
            caption = self.describe(extracted, search, category=number)
            return replace(caption, seconds={"features": made - started} | caption.seconds)

        caption = computing(compute)
        seconds = {"backbones": loaded - begun, "decoding": seen - loaded} | caption.seconds
        return replace(caption, seconds=seconds, preview=shown)

    def describe(self, extracted: Extracted, search: Search | None = None, *, category: int | None = None) -> Caption:
        """The sentence for features that were made as the specification says; category: its number."""
        begun = time.perf_counter()
        device = self.device
        # float16 is what a feature store holds: the same file gives the same numbers as in training.
        given = {m: torch.from_numpy(x)[None].half().float().to(device) for m, x in extracted.features.items()}
        lengths = {m: torch.tensor([x.shape[1]]) for m, x in given.items()}  # of features [1, T_m, D_m]
        number = None if category is None else torch.tensor([category])
        with inference(self.model):
            memory = self.model.encode(given, lengths, number)
            found = (search or self.search)(self.model, memory).explained(self.model, memory)
            sure = self._confidence(found, memory)
        texts, logprobs = found.texts(self.model.vocabulary)[0], found.logprob[0].tolist()
        words = tuple(texts[0].split())
        return Caption(
            text=texts[0],
            words=words,
            logprob=logprobs[0],
            confidence=sure,
            explanation=_of_words(found.explanation, len(words)),
            alternatives=tuple(zip(texts[1:], logprobs[1:], strict=False)),
            absent=extracted.absent,
            seconds={"words": time.perf_counter() - begun},
        )

    def _confidence(self, found: Hypotheses, memory: Memory) -> float | None:
        if self.confidence is None or found.words.shape[1] == 1:  # of a greedy search, nothing agrees with anything
            return None
        seen = torch.zeros_like(found.score)
        if memory.evidence is not None:
            seen = evidence_of(found, memory.evidence, self.model.vocabulary.pad)
        return round(float(self.confidence(found, seen)[0]), 3)

    def category(self, name: str | None) -> int | None:
        """The number of a category; one that the model does not know is an error that names those it knows."""
        if name is None:
            return None
        known = self.model.config.categories
        if not known:
            raise UserError(f"category={name!r}: this model was trained without categories, leave it out")
        if name not in known:
            raise UserError(f"category={name!r} is unknown to this model: {nearest(name, known)}")
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

    def close(self) -> None:
        """End the process that decodes files; the next file starts another."""
        if "extractor" in self.__dict__:
            self.extractor.close()


def load(model: Path | str | None = None, device: str = "auto") -> VideoCaptioner:
    """A captioner, ready to caption: the one that hoca ships, a run folder's best checkpoint or a checkpoint file.

    device: `auto` is the GPU if there is one.
    """
    loaded = load_model(model)
    return VideoCaptioner(
        loaded.model.to(choose_device(device)), loaded.specification, loaded.search, loaded.confidence
    )


def _of_words(explanation: Explanation | None, words: int) -> Explanation:
    """The rows of the best sentence's words: [1, W, L, ...] → [words, ...], and what was found: [1] → a number."""
    if explanation is None:
        return Explanation()
    rows: Callable[[Tensor], Tensor] = lambda tensor: tensor[0, 0, :words].cpu()  # noqa: E731
    found = map_tensors(lambda tensor: tensor[0].cpu(), explanation.found)
    return replace(map_tensors(rows, replace(explanation, found={})), found=found)
