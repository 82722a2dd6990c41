"""Caption the videos of a split and score the sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hoca.data import Batch, FolderDataset, evaluation_batches
from hoca.generation import Hypotheses, Limits, beam_search, greedy, weigh
from hoca.generation.step import inference
from hoca.models import Captioner, Memory
from hoca.training.distributed import Processes
from hoca.training.recipe import Recipe

BATCH = 128  # videos that are captioned at once


@dataclass(frozen=True)
class Search:
    """How sentences are looked for: greedily (beam 1), or by beam search."""

    beam: int = 5
    length_penalty: float = 0.0
    limits: Limits = Limits()
    evidence: float = 0.0  # weight of the words that the model detects, if it does

    @classmethod
    def of(cls, recipe: Recipe) -> Search:
        limits = Limits(max_length=recipe.max_length, no_repeat=recipe.no_repeat)
        return cls(recipe.beam, recipe.length_penalty, limits, recipe.evidence)

    def __call__(self, model: Captioner, memory: Memory) -> Hypotheses:
        if self.beam == 1 and not memory.start[0].is_cuda:  # there a beam of one, which is captured, is faster
            return greedy(model, memory, self.limits)
        found = beam_search(model, memory, self.limits, width=self.beam, length_penalty=self.length_penalty)
        if memory.evidence is None or not self.evidence:
            return found
        return weigh(found, memory.evidence, self.evidence, model.vocabulary.pad)


def caption_batches(model: Captioner, batches: Iterable[Batch], search: Search, here: Processes) -> dict[str, str]:
    """The best sentence for each video of the batches that this process was given."""
    captions: dict[str, str] = {}
    with inference(model):
        for batch in batches:
            batch = batch.to(here.device, non_blocking=True)
            found = search(model, model.encode(batch.features, batch.lengths, batch.category))
            captions.update(zip(batch.ids, (texts[0] for texts in found.texts(model.vocabulary)), strict=True))
    return captions


def caption_split(
    model: Captioner, dataset: FolderDataset, split: str, search: Search, here: Processes
) -> dict[str, str]:
    """The best sentence for each video of a split, on every process the same, in the dataset's order."""
    batches = evaluation_batches(dataset, split, BATCH, rank=here.rank, world=here.world)
    mine = caption_batches(model, batches, search, here)
    found = {id: text for part in here.gather(mine) for id, text in part.items()}
    return {video.id: found[video.id] for video in dataset.videos(split)}
