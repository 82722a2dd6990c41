"""How sentences are looked for: the settings that a recipe, a checkpoint and the command line share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hoca.errors import UserError
from hoca.generation.beam import beam_search
from hoca.generation.evidence import weigh
from hoca.generation.hypotheses import Hypotheses
from hoca.generation.limits import SentenceLimits
from hoca.generation.rollout import greedy
from hoca.models import CaptionModel, Memory
from hoca.models.trees import tensors
from hoca.options import check_bounds, make, option

MOST_WORDS = 1 << 15  # held at a time by a search for one video


@dataclass(frozen=True)
class Search:
    """Greedily (beam 1), or by beam search: `search(model, memory)` gives sentences, best first."""

    beam: int = option(5, "width of the search; 1 is greedy", least=1, below=1 << 10)
    length_penalty: float = option(
        0.0, "log-probabilities are divided by the length to this power", least=0, below=1 << 6
    )
    max_length: int = option(30, "words in a generated caption, at most", least=1, below=1 << 10)
    no_repeat: int = option(
        0, "no sequence of this many words occurs twice in a caption; 0 = off", least=0, below=1 << 10
    )
    not_first: tuple[str, ...] = option((), "words that no caption begins with, such as [there]")
    detector_weight: float = option(
        0.0, "weight of the detected words when the beam is reranked; 0 = off", least=0, below=1 << 20
    )

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.beam * self.max_length >= MOST_WORDS:
            raise UserError(
                f"beam={self.beam} sentences of max_length={self.max_length} words are too many: beam · max_length "
                f"must be below {MOST_WORDS}"
            )

    @property
    def limits(self) -> SentenceLimits:
        return SentenceLimits(max_length=self.max_length, no_repeat=self.no_repeat, not_first=self.not_first)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Search:
        return make(cls, ("the search settings", values if isinstance(values, dict) else {"search": values}))

    def __call__(self, model: CaptionModel, memory: Memory) -> Hypotheses:
        if self.beam == 1 and not tensors(memory)[0].is_cuda:  # there a beam of one, which is captured, is faster
            return greedy(model, memory, self.limits)
        found = beam_search(model, memory, self.limits, width=self.beam, length_penalty=self.length_penalty)
        if memory.evidence is None or not self.detector_weight:
            return found
        return weigh(found, memory.evidence, self.detector_weight, model.vocabulary.pad)
