"""A sentence for a video, with all that is known about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from hoca.models import Explanation

if TYPE_CHECKING:
    from hoca.captioning.captioner import VideoCaptioner
    from hoca.media import Preview

UNSURE = 0.2  # confidence below which a sentence is shown as unsure


@dataclass(frozen=True)
class SentenceScore:
    """What decided the place of a sentence in the beam, and its two parts."""

    likelihood: float  # log p over the length to the power of the search's length penalty
    detected: float  # what words add that were detected in the video; 0 where the model detects none

    @property
    def total(self) -> float:
        return self.likelihood + self.detected

    def to_json(self) -> dict[str, Any]:
        parts = {"likelihood": round(self.likelihood, 4), "detected": round(self.detected, 4)}
        return {"score": round(self.total, 4), "score_parts": parts}


@dataclass(frozen=True)
class ViewCaption:
    """What a model says of one of several views of a video, such as one choice of its moments."""

    view: int  # from 1 on, the view whose sentence is the caption
    text: str
    logprob_per_word: float  # <eos> counted as a word

    def to_json(self) -> dict[str, Any]:
        return {"view": self.view, "text": self.text, "logprob_per_word": round(self.logprob_per_word, 4)}


@dataclass(frozen=True, repr=False)
class Caption:
    """A sentence for a video, how sure the model is of it, and what its words looked at."""

    text: str
    words: tuple[str, ...]
    logprob: float  # log p(sentence, <eos> included)
    confidence: float | None  # probability that it is as good as a person's; None: the model was not fitted to tell
    explanation: Explanation  # what each word looked at: α_g and α [L, T_m], β [L], …, where the model can tell
    alternatives: tuple[tuple[str, float], ...]  # the other sentences of the beam with their log-probabilities
    absent: dict[str, str]  # modality → why it is missing
    seconds: dict[str, float]  # what took how long
    preview: Preview | None = None  # of the clip, where it was asked for
    scores: tuple[SentenceScore, ...] = ()  # of the sentence and of each alternative, greatest first
    views: tuple[
        ViewCaption, ...
    ] = ()  # of a model that looks at a video in several ways, the likeliest per word first
    duration: float | None = None  # seconds that the clip plays; None: not known
    video: str | None = None  # the file
    part: tuple[float, float] | None = None  # seconds (start, end) of it that were captioned; None: all
    made_by: VideoCaptioner | None = field(default=None, compare=False)
    as_html: ClassVar[Callable[[Caption], str | None] | None] = None  # for notebooks; `hoca` sets it

    def __repr__(self) -> str:
        sure = "" if self.confidence is None else f", confidence={self.confidence:g}"
        return f"Caption({self.text!r}{sure})"

    def _repr_html_(self) -> str | None:
        """The report, in a notebook."""
        return None if Caption.as_html is None else Caption.as_html(self)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"made_by": None}  # a caption is sent to another process without its model

    def unsure(self, least: float = UNSURE) -> bool:
        return self.confidence is not None and self.confidence < least

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Caption:
        """What `to_json` told; what the words looked at is not in it."""
        return cls(
            text=str(told["text"]),
            words=tuple(told["text"].split()),
            logprob=float(told["logprob"]),
            confidence=None if told["confidence"] is None else float(told["confidence"]),
            explanation=Explanation(),
            alternatives=tuple((str(each["text"]), float(each["logprob"])) for each in told["alternatives"]),
            absent=dict(told["absent"]),
            seconds=dict(told["seconds"]),
            scores=tuple(
                SentenceScore(**each["score_parts"]) for each in (told, *told["alternatives"]) if "score_parts" in each
            ),
            views=tuple(ViewCaption(**each) for each in told.get("views", ())),
        )

    def to_json(self) -> dict[str, Any]:
        """What `hoca caption --json` and the API tell of it."""
        mine, *others = [score.to_json() for score in self.scores] or [{}] * (1 + len(self.alternatives))
        return {
            "text": self.text,
            "logprob": self.logprob,
            **mine,
            "confidence": self.confidence,
            "alternatives": [
                {"text": text, "logprob": p, **score}
                for (text, p), score in zip(self.alternatives, others, strict=True)
            ],
            **({"views": [each.to_json() for each in self.views]} if self.views else {}),
            "absent": self.absent,
            "seconds": {stage: round(seconds, 4) for stage, seconds in self.seconds.items()},
        }
