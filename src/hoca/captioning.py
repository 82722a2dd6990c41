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

from hoca.data.vocabulary import Vocabulary
from hoca.devices import choose_device
from hoca.errors import UserError
from hoca.generation.step import inference
from hoca.media.preview import PICTURES
from hoca.models import Attention, Captioner, Config
from hoca.options import make
from hoca.training.checkpoint import locate, read_checkpoint
from hoca.training.evaluation import Search
from hoca.training.recipe import Recipe

if TYPE_CHECKING:
    from hoca.features import Extracted, Extractor
    from hoca.media import Limits, Preview


@dataclass(frozen=True)
class Caption:
    text: str
    words: tuple[str, ...]
    logprob: float  # log p(sentence, <eos> included)
    attention: Attention  # per word: α_g and α [L, T_m], β [L]
    alternatives: tuple[tuple[str, float], ...]  # the other sentences of the beam with their log-probabilities
    absent: dict[str, str]  # modality → why it is missing
    seconds: dict[str, float]  # what took how long
    preview: Preview | None = None  # of the clip, where it was asked for

    def to_json(self) -> dict[str, Any]:
        """What `hoca caption --json` and the API tell of it."""
        return {
            "text": self.text,
            "logprob": self.logprob,
            "alternatives": [{"text": text, "logprob": p} for text, p in self.alternatives],
            "absent": self.absent,
            "seconds": {stage: round(seconds, 4) for stage, seconds in self.seconds.items()},
        }


class VideoCaptioner(Captioner):
    """A captioner that knows how its features are made, so that it takes files."""

    def __init__(self, config: Config, vocabulary: Vocabulary, specification: dict[str, Any], search: Search) -> None:
        super().__init__(config, vocabulary)
        self.specification = specification
        self.search = search
        self._limits: Limits | None = None

    def caption(
        self, video: Path | str, search: Search | None = None, *, pictures: int = 0, limits: Limits | None = None
    ) -> Caption:
        """The sentence that this model finds for a video file.

        pictures: how many a preview of the clip has, which a report shows; 0 = no preview. limits: what this file may
        cost; None = the captioner's own.
        """
        begun = time.perf_counter()
        extractor = self.extractor
        loaded = time.perf_counter()
        extracted = extractor.extract(video, pictures=pictures, limits=limits)
        seen = time.perf_counter()
        if not extracted.features:
            raise UserError(f"{video}: nothing to caption ({'; '.join(extracted.absent.values())})")
        caption = self.describe(extracted, search)
        return replace(caption, seconds={"backbones": loaded - begun, "features": seen - loaded, **caption.seconds})

    @property
    def limits(self) -> Limits | None:
        """What one file may cost; None = the usual."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits | None) -> None:
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

        for modality in self.config.modalities:
            backbone = self.specification.get(modality, {}).get("backbone", "unknown")
            if backbone not in BACKBONES and not backbone.startswith("hf:"):
                raise UserError(
                    f"this model was trained on {modality} features that hoca cannot make (backbone {backbone}), so it "
                    f"takes no files: hoca evaluate captions stored features"
                )
        return Extractor(self.specification, device=next(self.parameters()).device.type, limits=self.limits)

    def close(self) -> None:
        """End the process that decodes files; the next file starts another."""
        if "extractor" in self.__dict__:
            self.extractor.close()

    def describe(self, extracted: Extracted, search: Search | None = None) -> Caption:
        """The sentence for features that were made as this model's specification says."""
        begun = time.perf_counter()
        device = next(self.parameters()).device
        # float16 is what a feature store holds: the same file gives the same numbers as in training.
        given = {m: torch.from_numpy(x)[None].half().float().to(device) for m, x in extracted.features.items()}
        lengths = {m: torch.tensor([x.shape[1]]) for m, x in given.items()}  # of features [1, T_m, D_m]
        with inference(self):
            memory = self.encode(given, lengths)
            found = (search or self.search)(self, memory).with_attention(self, memory)
        texts, logprobs = found.texts(self.vocabulary)[0], found.logprob[0].tolist()
        words = tuple(texts[0].split())
        return Caption(
            text=texts[0],
            words=words,
            logprob=logprobs[0],
            attention=_of_words(found.attention, len(words)),
            alternatives=tuple(zip(texts[1:], logprobs[1:], strict=False)),
            absent=extracted.absent,
            seconds={"words": time.perf_counter() - begun},
            preview=extracted.preview,
        )


def load(model: Path | str | None = None, device: str = "auto") -> VideoCaptioner:
    """A captioner, ready to caption: the one that hoca ships, a run folder's best checkpoint or a checkpoint file.

    device: `auto` is the GPU if there is one.
    """
    path = locate(model)
    checkpoint = read_checkpoint(path)
    facts = checkpoint.facts
    for name in ("config", "vocabulary", "specification", "recipe"):
        if name not in facts:
            raise UserError(f"the checkpoint {path} does not tell its {name}: it was not written by `hoca train`")
    captioner = VideoCaptioner(
        Config.from_json(facts["config"]),
        Vocabulary.from_json(facts["vocabulary"]),
        facts["specification"],
        Search.of(make(Recipe, (str(path), facts["recipe"]))),
    )
    try:
        captioner.load_state_dict(checkpoint.part("model"))
    except RuntimeError as error:
        raise UserError(
            f"the weights in {path} do not fit its own configuration and vocabulary: it was edited or mixed up"
        ) from error
    return captioner.to(choose_device(device)).eval()


def _of_words(attention: Attention | None, words: int) -> Attention:
    """The rows of the best sentence's words: [1, W, L, ...] → [words, ...]."""
    assert attention is not None
    rows: Callable[[Tensor], Tensor] = lambda tensor: tensor[0, 0, :words].cpu()  # noqa: E731
    return Attention(
        groups={m: {g: rows(a) for g, a in groups.items()} for m, groups in attention.groups.items()},
        merged={m: rows(a) for m, a in attention.merged.items()},
        modalities={m: rows(b) for m, b in attention.modalities.items()},
    )
