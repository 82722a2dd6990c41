"""Words so far → the query of the next word: `h_t = LSTM(h_{t-1}, y_t)` (eq. 1). The context never re-enters."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hoca.models.config import ModelConfig
from hoca.models.parts.start import HiddenState
from hoca.ops.lstm import run_lstm


class Decoder(nn.Module):
    def __init__(self, config: ModelConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, config.embedding)
        self.lstm = nn.LSTM(config.embedding, config.hidden, batch_first=True)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, words: Tensor, state: HiddenState) -> tuple[Tensor, HiddenState]:
        """words [B, R, L] → h [B, R, L, H] with dropout, and the state after the last word: one LSTM call for all."""
        captions = words.shape[:2]
        embedded = self.dropout(self.embedding(words)).flatten(0, 1)  # [B·R, L, E]
        h, c = (part.flatten(0, 1)[None].contiguous() for part in state)  # each [1, B·R, H]
        if torch.is_autocast_enabled(embedded.device.type):
            hidden, end = run_lstm(self.lstm, embedded, (h, c))
        else:
            hidden, end = self.lstm(embedded, (h, c))  # eq. 1
        h, c = (part[0].unflatten(0, captions) for part in end)
        return self.dropout(hidden).unflatten(0, captions), (h, c)
