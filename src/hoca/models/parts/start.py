"""The decoder's start state: zeros, or a linear map of the vector of the video's category (paper, section 5.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hoca.models.config import ModelConfig

HiddenState = tuple[Tensor, Tensor]  # h and c, each [B, R, H]


class Start(nn.Module):
    vectors: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.hidden = config.hidden
        self.map = nn.Linear(config.category_width, 2 * config.hidden) if config.categories else None
        self.register_buffer("vectors", torch.zeros(len(config.categories), config.category_width))

    def forward(self, category: Tensor | None, like: Tensor) -> HiddenState:
        """category [B], -1 = unknown → h and c, each [B, H], for the batch of `like` [B, ...]."""
        zeros = like.new_zeros(like.shape[0], 2 * self.hidden)
        if self.map is None or category is None:
            h, c = zeros.chunk(2, dim=1)
            return h, c
        category = category.to(like.device)
        mapped = self.map(self.vectors[category.clamp(min=0)])
        h, c = torch.where((category >= 0)[:, None], mapped, zeros.to(mapped.dtype)).chunk(2, dim=1)
        return h, c


def for_rows(start: HiddenState, rows: int) -> HiddenState:
    """h and c [B, H] → each [B, R, H], the same for `rows` captions of a video."""
    h, c = (part[:, None].expand(-1, rows, -1) for part in start)
    return h, c
