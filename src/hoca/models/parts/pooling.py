"""A video as one vector per modality, and these as one vector of the video."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hoca.models.config import ModelConfig
from hoca.models.parts.encoder import Encoder
from hoca.models.parts.features import FeatureBatch


class Pooled(nn.Module):
    """The mean over the real steps of each modality.

    bilstm: of the encodings of a BiLSTM. linear: of the features, through a layer with ReLU. none: of the features.
    """

    def __init__(self, config: ModelConfig, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.encoder = Encoder(config) if kind == "bilstm" else None
        linear, own = kind == "linear", kind != "bilstm"
        self.layers = nn.ModuleDict({m: nn.Linear(d, config.hidden) for m, d in config.modalities.items() if linear})
        self.norms = nn.ModuleDict(
            {m: nn.LayerNorm(d) for m, d in config.modalities.items() if own and config.normalise}
        )
        self.dropout = nn.Dropout(config.encoder_dropout)
        narrow = {"bilstm": 2 * config.hidden, "linear": config.hidden}
        self.widths = {m: narrow.get(kind, d) for m, d in config.modalities.items()}

    def forward(self, batch: FeatureBatch) -> dict[str, Tensor]:
        """→ [B, D] of each modality that some video has, zero where it is missing unless it is `linear`."""
        if self.encoder is not None:  # whose encodings are zero at padded steps, and have had their dropout
            return {m: _mean(x, batch.masks[m]) for m, x in self.encoder(batch).items()}
        found = {}
        for m, x in batch.features.items():
            real = batch.masks[m][..., None]  # [B, T, 1]
            x = x.masked_fill(~real, 0.0)
            if m in self.norms:
                x = self.norms[m](x).masked_fill(~real, 0.0)
            mean = _mean(x, batch.masks[m])
            found[m] = self.dropout(torch.relu(self.layers[m](mean)) if m in self.layers else mean)
        return found


def _mean(x: Tensor, real: Tensor) -> Tensor:
    """x [B, T, D], zero where it is not real [B, T] → [B, D]."""
    return x.sum(1) / real.sum(1, keepdim=True).clamp(min=1).to(x.dtype)


class SummedVideo(nn.Module):
    """Σ_m W_m v_m over the modalities that a video has, and a bias."""

    def __init__(self, widths: Mapping[str, int], out: int) -> None:
        super().__init__()
        self.maps = nn.ModuleDict({m: nn.Linear(width, out, bias=False) for m, width in widths.items()})
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, pooled: Mapping[str, Tensor], present: Mapping[str, Tensor]) -> Tensor:
        """pooled[m] [B, D_m], present[m] [B] → [B, out]."""
        return self.bias + sum(self.maps[m](x) * present[m][:, None] for m, x in pooled.items())


class FlaggedVideo(nn.Module):
    """[v_1; …; v_n; which of them there are]; a learned vector stands where one is missing."""

    def __init__(self, widths: Mapping[str, int]) -> None:
        super().__init__()
        self.modalities = tuple(widths)  # a ParameterDict would sort them
        self.missing = nn.ParameterDict({m: nn.Parameter(0.01 * torch.randn(width)) for m, width in widths.items()})
        self.width = sum(widths.values()) + len(widths)

    def forward(self, pooled: Mapping[str, Tensor], present: Mapping[str, Tensor]) -> Tensor:
        """pooled[m] [B, D_m], present[m] [B], modalities that no video has left out → [B, width]."""
        like = next(iter(pooled.values()))
        parts, flags = [], []
        for m in self.modalities:
            here = present[m][:, None] if m in pooled else torch.zeros_like(like[:, :1], dtype=torch.bool)
            instead = self.missing[m].to(like.dtype).expand(len(like), -1)
            parts.append(torch.where(here, pooled[m], instead) if m in pooled else instead)
            flags.append(here.to(like.dtype))
        return torch.cat([*parts, *flags], dim=1)
