"""RecNet: an SA-LSTM whose decoder states must tell the video again (Wang et al., CVPR 2018).

A reconstructor per modality reads the states h_1 … h_L of a caption and predicts the modality's own features: their
mean (`global`) or each step (`local`). It is there in training alone; captions are those of the SA-LSTM. The features
that are predicted are the model's input: a trained encoding could be made easy to predict by making it constant. What
the local one attends to, and how far off it is at each step, is shown by `look`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor, nn

from hoca.models.baselines.sa_lstm import SALSTM, SALSTMConfig, SALSTMMemory
from hoca.models.config import SCALE, SIZE
from hoca.models.explanation import Matrix, Names, Steps, Words
from hoca.models.interface import Decoded, Explanation, TrainingBatch, Weighted
from hoca.models.parts.attention import AdditiveAttention
from hoca.models.parts.features import FeatureBatch
from hoca.models.registry import register
from hoca.ops.lstm import run_lstm
from hoca.options import option
from hoca.text import Vocabulary

SOURCE = "Wang et al., CVPR 2018"


@dataclass(frozen=True)
class RecNetConfig(SALSTMConfig):
    reconstruct: Literal["global", "local"] = option(
        "local", "what is reconstructed: the mean of the features, or each time step"
    )
    reconstruction: float = option(0.1, "λ, weight of the reconstruction loss; 0 = an SA-LSTM", least=0, below=SCALE)
    distance: Literal["l2", "mse"] = option("l2", "distance between features: Euclidean, or mean squared error")
    reconstructor_attention: int = option(256, "width of the local reconstructor's attention", least=1, below=SIZE)


@dataclass(frozen=True)
class RecNetMemory(SALSTMMemory):
    given: dict[str, Tensor]  # the features, zero at padded steps, [B, T_m, D_m]


class GlobalReconstructor(nn.Module):
    """z_t = LSTM(z_{t-1}, [h_t; mean h]); the mean of z over the words is to be the mean of the features."""

    def __init__(self, config: RecNetConfig, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2 * config.hidden, width, batch_first=True)

    def forward(self, hidden: Tensor, said: Tensor, features: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """hidden [C, L, H], said [C, L], features [C, T, D], real [C, T] → predicted, target [C, 1, D], real [C, 1]."""
        mean = masked_mean(hidden, said)[:, None].expand_as(hidden)
        states, _ = run_lstm(self.lstm, torch.cat([hidden, mean], dim=-1))  # [C, L, D]
        predicted, target = masked_mean(states, said), masked_mean(features, real)
        return predicted[:, None], target[:, None], real.any(1, keepdim=True)


class LocalReconstructor(nn.Module):
    """μ_j = Att(z_{j-1}, h_1 … h_L), z_j = LSTM(z_{j-1}, μ_j): z_j is to be step j of the features."""

    def __init__(self, config: RecNetConfig, width: int) -> None:
        super().__init__()
        self.attention = AdditiveAttention(width, config.hidden, config.reconstructor_attention)
        self.cell = nn.LSTMCell(config.hidden, width)

    def forward(self, hidden: Tensor, said: Tensor, features: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """hidden [C, L, H], said [C, L], features [C, T, D], real [C, T] → predicted, target [C, T, D], real [C, T]."""
        predicted, _ = self.attend(hidden, said, features.shape[1])
        return predicted, features, real

    def attend(self, hidden: Tensor, said: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """→ z [C, T, D], and the words that each step attends to, [C, T, L]."""
        keys = self.attention.project(hidden)
        z = c = hidden.new_zeros(len(hidden), self.cell.hidden_size)
        states, weights = [], []
        for _ in range(steps):
            context, alpha = self.attention(z[:, None], keys, hidden, said)
            z, c = self.cell(context[:, 0].to(z.dtype), (z, c))
            states.append(z)
            weights.append(alpha[:, 0])
        return torch.stack(states, dim=1), torch.stack(weights, dim=1)


@register(
    "recnet-local",
    source=SOURCE,
    about="SA-LSTM whose states must tell every step of the features",
    fidelity="B",
    reconstruct="local",
    reconstruction=0.1,
)
@register(
    "recnet-global",
    source=SOURCE,
    about="SA-LSTM whose states must tell the mean of the features",
    fidelity="B",
    reconstruct="global",
    reconstruction=0.2,
)
class RecNet(SALSTM):
    Config = RecNetConfig
    config: RecNetConfig

    def __init__(self, config: RecNetConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        kind = GlobalReconstructor if config.reconstruct == "global" else LocalReconstructor
        self.reconstructors = nn.ModuleDict({m: kind(config, width) for m, width in config.modalities.items()})

    def encode(
        self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor], category: Tensor | None = None
    ) -> RecNetMemory:
        memory = super().encode(features, lengths, category)
        given = _clean(FeatureBatch.of(self.config, features, lengths))
        return RecNetMemory(**{each.name: getattr(memory, each.name) for each in fields(memory)}, given=given)

    def losses(self, memory: SALSTMMemory, batch: TrainingBatch, decoded: Decoded) -> dict[str, Weighted]:
        """The distance of predicted and given features: mean over the steps and the modalities of each caption."""
        if not self.config.reconstruction:
            return {}
        given = FeatureBatch.of(self.config, batch.features, batch.lengths)
        said = (batch.words[:, :, 1:] != self.vocabulary.pad).flatten(0, 1)  # [B·R, L]
        hidden, rows = decoded.hidden.flatten(0, 1), decoded.hidden.shape[1]
        total = counted = torch.zeros((), device=hidden.device)
        for modality, features in _clean(given).items():
            real = given.masks[modality].repeat_interleave(rows, dim=0)  # [B·R, T]
            target = features.repeat_interleave(rows, dim=0).to(hidden.dtype)
            total = total + self._distance(*self.reconstructors[modality](hidden, said, target, real))
            counted = counted + given.present[modality].repeat_interleave(rows)
        captions = said.any(1)
        return {"reconstruction": Weighted(self.config.reconstruction, (total / counted * captions).sum())}

    def look(self, memory: SALSTMMemory, words: Tensor) -> Explanation:
        """Besides: which words tell each step of the features again, and how far off the local reconstruction is."""
        assert isinstance(memory, RecNetMemory)
        looked = super().look(memory, words)
        if not self.config.reconstruction or self.config.reconstruct == "global":
            return looked
        said = ((words != self.vocabulary.pad) & (words != self.vocabulary.eos)).flatten(0, 1)  # [B·R, L]
        hidden = self._roll(memory, words, self.begin(memory, words.shape[1]))[0].flatten(0, 1)
        matrices, about = {}, "β of each step over the words; what a column lacks to 1 went to the end of the sentence"
        for m, features in memory.given.items():
            part = self.reconstructors[m]
            assert isinstance(part, LocalReconstructor)
            predicted, weights = part.attend(hidden, said, features.shape[1])
            beta, z = (x.unflatten(0, words.shape[:2]) for x in (weights, predicted))  # [B, R, T, L], [B, R, T, D]
            real, steps = memory.masks[m][:, None], Steps(m, features.shape[1])  # [B, 1, T]
            off = self._distances(z, features[:, None].expand_as(z)) * real  # [B, R, T]
            matrices[f"words that tell {m} again"] = Matrix(
                (beta * real[..., None]).transpose(2, 3), Words(), steps, about
            )
            matrices[f"error of {m} told again"] = Matrix(
                off[:, :, None], Names(("error",)), steps, f"distance from the features ({self.config.distance})"
            )
        return replace(looked, matrices=matrices)

    def _distance(self, predicted: Tensor, target: Tensor, real: Tensor) -> Tensor:
        """[C, T, D] twice, real [C, T] → [C], the mean over the real steps, 0 where there are none."""
        each = self._distances(predicted, target)
        return (each * real).sum(1) / real.sum(1).clamp(min=1)

    def _distances(self, predicted: Tensor, target: Tensor) -> Tensor:
        """[..., D] twice → [...]."""
        squares = (predicted.float() - target.float()).square()
        if self.config.distance == "mse":
            return squares.mean(-1)
        return (squares.sum(-1) + 1e-12).sqrt()  # the root has no gradient at zero


def _clean(batch: FeatureBatch) -> dict[str, Tensor]:
    """The features, zero at padded steps."""
    return {m: x.masked_fill(~batch.masks[m][..., None], 0.0) for m, x in batch.features.items()}


def masked_mean(values: Tensor, real: Tensor) -> Tensor:
    """[C, T, D], real [C, T] → [C, D]; zero where nothing is real."""
    return (values * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
