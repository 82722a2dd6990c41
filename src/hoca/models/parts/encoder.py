"""Features of each modality → one BiLSTM each, all outputs kept (paper, section 3.1); or the features themselves."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hoca.models.config import ModelConfig
from hoca.models.parts.features import FeatureBatch
from hoca.ops.lstm import run_lstm


class Encoder(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.widths = dict.fromkeys(config.modalities, 2 * config.hidden)  # of the encodings
        self.dropout = nn.Dropout(config.encoder_dropout)
        self.norms = nn.ModuleDict(
            {m: nn.LayerNorm(width) if config.normalise else nn.Identity() for m, width in config.modalities.items()}
        )
        self.lstms = nn.ModuleDict(
            {
                modality: nn.LSTM(width, config.hidden, batch_first=True, bidirectional=True)
                for modality, width in config.modalities.items()
            }
        )

    def forward(self, batch: FeatureBatch) -> dict[str, Tensor]:
        """Features [B, T_m, D_m] → encodings [B, T_m, 2H], zero at padded steps."""
        return {modality: self._encode(modality, batch) for modality in batch.features}

    def encode_masked(self, modality: str, features: Tensor, real: Tensor | None) -> Tensor:
        """The same for one modality, with real [B, T] (None: every step is) in place of lengths that packing reads."""
        lstm, prepare = self.lstms[modality], nn.Sequential(self.norms[modality], self.dropout)
        assert isinstance(lstm, nn.LSTM)
        if real is None:
            return self.dropout(run_lstm(lstm, prepare(features))[0])
        padded = ~real[..., None]  # [B, T, 1]
        encoded, _ = run_lstm(lstm, prepare(features.masked_fill(padded, 0.0)), real=real)
        return self.dropout(encoded.masked_fill(padded, 0.0))

    def _encode(self, modality: str, batch: FeatureBatch) -> Tensor:
        features, length, real = batch.features[modality], batch.lengths[modality], batch.masks[modality]
        full = modality not in batch.ragged
        if length.is_cuda or torch.is_autocast_enabled(features.device.type):
            return self.encode_masked(modality, features, None if full else real)
        lstm, prepare = self.lstms[modality], nn.Sequential(self.norms[modality], self.dropout)
        if full:
            encoded, _ = lstm(prepare(features))  # [B, T, 2H]
            return self.dropout(encoded)
        padded = ~real[..., None]  # [B, T, 1]
        # A missing modality is run over one zero step, so that every row can be packed, and masked like padding.
        features = prepare(features.masked_fill(padded, 0.0))
        packed = pack_padded_sequence(features, length.clamp(min=1), batch_first=True, enforce_sorted=False)
        encoded, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=features.shape[1])
        return self.dropout(encoded.masked_fill(padded, 0.0))


class NoEncoder(nn.Module):
    """The features as they are, zero at padded steps, with the norm and the dropout that they are given otherwise."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.widths = dict(config.modalities)
        self.norms = nn.ModuleDict({m: nn.LayerNorm(d) for m, d in config.modalities.items() if config.normalise})
        self.dropout = nn.Dropout(config.encoder_dropout)

    def forward(self, batch: FeatureBatch) -> dict[str, Tensor]:
        """Features [B, T_m, D_m] → the same."""
        found = {}
        for m, x in batch.features.items():
            padded = ~batch.masks[m][..., None]  # [B, T, 1]
            x = x.masked_fill(padded, 0.0)
            found[m] = self.dropout(self.norms[m](x).masked_fill(padded, 0.0) if m in self.norms else x)
        return found


def encoder(config: ModelConfig, kind: str) -> Encoder | NoEncoder:
    """`bilstm` or `none`."""
    return Encoder(config) if kind == "bilstm" else NoEncoder(config)
