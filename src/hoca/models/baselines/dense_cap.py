"""DenseVidCap: words seen in the steps of a video choose those that a caption tells of (after Shen et al., CVPR 2017).

1. A lexical head sees words in every step of every modality; a noisy OR over all of them learns from the captions.
2. Of each modality the steps are chosen that are informative, representative and, for a second caption, new.
3. A BiLSTM over the chosen steps and their words, and an SA-LSTM that attends to them.

Where public descriptions leave it open, or differ (hence "-style"): only the language model of the paper was published.
Instances are time steps, not regions. Coherence of neighbours is replaced by coverage, which keeps the function
submodular. Steps are chosen in each modality apart: their encodings lie in spaces of their own, and every modality that
a video has keeps a say. Training tells of the first sequence, so every reference belongs to it and there is nothing to
associate. Who captions a video sees several, its `views`, each with a caption, ranked by the mean log-probability of a
word; scores and losses are of the first alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from hoca.models.baselines.sa_lstm import SALSTM, SALSTMConfig, SALSTMMemory
from hoca.models.config import SCALE, SIZE, STEPS
from hoca.models.explanation import Matrix, Names, Steps
from hoca.models.interface import Decoded, Explanation, References, TrainingBatch, Weighted
from hoca.models.parts.encoder import Encoder
from hoca.models.parts.features import FeatureBatch
from hoca.models.parts.lexicon import WordList
from hoca.models.parts.mil import MilHead, misses, noisy_or_loss, per_caption, probability
from hoca.models.parts.selection import Selection, distribution, select
from hoca.models.registry import register
from hoca.ops.linear import Linear
from hoca.options import option
from hoca.text import Vocabulary

LEXICAL = "lexical"
SEQUENCES = 8  # at most


@dataclass(frozen=True)
class DenseCapConfig(SALSTMConfig):
    encoder: Literal["bilstm"] = "bilstm"  # no option: steps are chosen by what is around them
    lexicon: int = option(1000, "number of words to detect in the time steps", least=1, below=SIZE)
    lexical_hidden: int = option(256, "width of the layer over the detected words", least=1, below=SIZE)
    lexical_weight: float = option(0.2, "weight of the word detection loss", least=0, below=SCALE)
    steps: int = option(8, "K, steps of each modality that are chosen", least=1, below=STEPS)
    coverage: float = option(0.5, "weight of representing the other steps, in the selection", least=0, below=SCALE)
    novelty: float = option(1.0, "weight of words that earlier sequences lack, in the selection", least=0, below=SCALE)
    sequences: int = option(
        3, "choices of steps that a caption each is made for, where a file is captioned", least=1, below=SEQUENCES + 1
    )


@dataclass(frozen=True)
class DenseCapMemory(SALSTMMemory):
    """What the decoder attends to are the chosen steps, in the order of time."""

    chosen: dict[str, Tensor]  # [B, K], where they stand in the video
    whole: dict[str, Tensor]  # [B, T_m] bool, the real steps of the video
    missed: Tensor  # -log(1 - P) of each word in the whole video, [B, W]
    seen: dict[str, Tensor]  # p of each word in each step, [B, T_m, W]
    gained: dict[str, Tensor]  # what each step added when it was chosen, of all sequences, [B, sequences, T_m]


@register(
    "dense-cap",
    source="after Shen et al., CVPR 2017",
    about="words seen in the steps choose those that a caption tells of: DenseVidCap-style",
    fidelity="A/C",
)
class DenseCap(SALSTM):
    Config = DenseCapConfig  # type: ignore[assignment]  # of one encoder
    config: DenseCapConfig

    def __init__(self, config: DenseCapConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        encoded = dict.fromkeys(config.modalities, 2 * config.hidden)
        self.lexicon = WordList(config.lexicon)
        whole = sum(config.max_steps.values())
        self.detectors = MilHead(encoded, config.lexicon, dict.fromkeys(config.modalities, whole))
        self.seen_words = nn.ModuleDict({m: Linear(config.lexicon, config.lexical_hidden) for m in encoded})
        both = {m: width + config.lexical_hidden for m, width in encoded.items()}
        self.tell = Encoder(replace(config, modalities=both, normalise=False, word_detector=()))

    def prepare(self, references: References) -> None:
        if self.lexicon.fit(references, self.vocabulary):
            self.detectors.begin(self.lexicon.frequency)

    def set_lengths(self, lengths: Mapping[str, Tensor]) -> None:
        """The bag is all steps of all modalities."""
        whole = float(sum(length.double().mean() for length in lengths.values()))
        self.detectors.steps = dict.fromkeys(self.config.modalities, whole)

    def targets(self, references: Sequence[str]) -> dict[str, Tensor]:
        return {LEXICAL: self.lexicon.labels(references, self.vocabulary)}

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> DenseCapMemory:
        (memory,) = self.sequences(features, lengths, category)
        return memory

    def views(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> list[DenseCapMemory]:
        return self.sequences(features, lengths, category, self.config.sequences)

    def sequences(
        self,
        features: Mapping[str, Tensor],
        lengths: Mapping[str, Tensor],
        category: Tensor | None = None,
        count: int = 1,
    ) -> list[DenseCapMemory]:
        """Several choices of steps, each unlike those before it: what `count` captions of a video look at.

        There is one where no modality has more steps than are chosen.
        """
        batch = FeatureBatch.of(self.config, features, lengths)
        encoded, scores = self.encoder(batch), {}
        for m, x in encoded.items():
            scores[m] = self.detectors(m, x)
            scores[m] = scores[m].to(torch.promote_types(scores[m].dtype, torch.float32))
        p = {m: torch.sigmoid(x) * self.lexicon.listed for m, x in scores.items()}  # [B, T_m, W]
        missed = torch.stack([misses(x, batch.masks[m]) for m, x in scores.items()]).sum(0)
        start, evidence = self.start(category, next(iter(encoded.values()))), self.detect(batch)
        selections = self._select(batch, encoded, p, count)
        gained = {m: torch.stack([each[m].gained for each in selections], dim=1) for m in encoded}
        found = []
        for kept in selections:
            # The chosen steps come first, in the order of time: a stable sort keeps it.
            order = {
                m: (~x.chosen).to(torch.uint8).argsort(dim=1, stable=True)[:, : self.config.steps]
                for m, x in kept.items()
            }
            chosen = self._chosen(batch, encoded, p, order)
            told_again = self.tell(chosen)
            found.append(
                DenseCapMemory(
                    encoded=told_again,
                    keys={m: self.attention[m].project(x) for m, x in told_again.items()},  # type: ignore[operator]
                    masks=chosen.masks,
                    present=batch.present,
                    start=start,
                    evidence=evidence,
                    chosen=order,
                    whole=batch.masks,
                    missed=missed,
                    seen=p,
                    gained=gained,
                )
            )
        return found

    def _select(
        self, batch: FeatureBatch, encoded: Mapping[str, Tensor], p: Mapping[str, Tensor], count: int
    ) -> list[dict[str, Selection]]:
        """The steps of each sequence, by modality."""
        if all(x.shape[1] <= self.config.steps for x in encoded.values()):
            count = 1
        told: list[Tensor] = []  # the words of each sequence, [B, W]
        found = []
        for _ in range(count):
            before = torch.stack(told).mean(0) if told else None
            weights = {"coverage": self.config.coverage, "novelty": self.config.novelty}
            kept = {
                m: select(p[m], x, batch.masks[m], self.config.steps, **weights, told=before)
                for m, x in encoded.items()
            }
            told.append(torch.stack([(distribution(p[m]) * kept[m].chosen[..., None]).sum(1) for m in p]).sum(0))
            found.append(kept)
        return found

    def losses(self, memory: DenseCapMemory, batch: TrainingBatch, decoded: Decoded) -> dict[str, Weighted]:
        """Of the words in the captions: summed over them."""
        if not self.config.lexical_weight:
            return {}
        each = noisy_or_loss(memory.missed, batch.targets[LEXICAL].to(memory.missed.dtype)) * self.lexicon.listed
        loss = per_caption(each.sum(1), batch.words, self.vocabulary.pad)
        return {LEXICAL: Weighted(self.config.lexical_weight, loss)}

    def look(self, memory: SALSTMMemory, words: Tensor) -> Explanation:
        """Weights are those of the chosen steps, 0 at all others. Besides, the words in the video and in each step, and
        what the steps of each sequence were chosen for."""
        assert isinstance(memory, DenseCapMemory)
        looked, attention = super().look(memory, words), {}
        for m, weights in looked.attention.items():  # [B, R, L, K]
            nothing = weights.new_zeros(*weights.shape[:3], memory.whole[m].shape[1])
            places = memory.chosen[m][:, None, None].expand_as(weights)
            attention[m] = nothing.scatter_add(3, places, weights)
        matrices, rows, listed = {}, words.shape[1], self.lexicon.listed
        names = Names(tuple(self.vocabulary.tokens[id] for id in self.lexicon.ids[listed].tolist()))
        for m, real in memory.whole.items():
            each, steps = (memory.seen[m] * real[..., None])[:, :, listed], Steps(m, real.shape[1])
            in_steps, gained = (x[:, None].expand(-1, rows, -1, -1) for x in (each.transpose(1, 2), memory.gained[m]))
            if names.names:
                matrices[f"words seen in {m}"] = Matrix(in_steps, names, steps, "probability of a word in a step")
            views = Names(tuple(f"view {number}" for number in range(1, gained.shape[2] + 1)))
            matrices[f"steps of {m} chosen"] = Matrix(gained, views, steps, "what a step added when it was chosen")
        seen = self.lexicon.named(probability(memory.missed), self.vocabulary)
        return replace(looked, attention=attention, found={"words": seen} if seen else {}, matrices=matrices)

    def _chosen(
        self, batch: FeatureBatch, encoded: Mapping[str, Tensor], p: Mapping[str, Tensor], order: Mapping[str, Tensor]
    ) -> FeatureBatch:
        """[V_i; the words of step i] of the chosen steps alone, as a batch of its own."""
        features, masks = {}, {}
        for m, x in encoded.items():
            words = self.seen_words[m](_taken(p[m], order[m]).to(x.dtype))  # [B, K, ...]
            features[m] = torch.cat([_taken(x, order[m]), words.to(x.dtype)], dim=-1)
            masks[m] = batch.masks[m].gather(1, order[m])
        lengths = {m: length.clamp(max=self.config.steps) for m, length in batch.lengths.items()}
        return FeatureBatch(features, lengths, masks, batch.present, batch.ragged)


def _taken(values: Tensor, places: Tensor) -> Tensor:
    """values [B, T, D], places [B, K] → [B, K, D]."""
    return values.gather(1, places[..., None].expand(-1, -1, values.shape[2]))
