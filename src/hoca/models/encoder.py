"""Features of each modality → one BiLSTM each, all outputs kept (paper, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hoca.errors import UserError
from hoca.models.config import Config
from hoca.models.recurrence import run_lstm


class Encoder(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.max_steps = config.max_steps
        self.widths = dict(config.modalities)
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

    def forward(self, features: Mapping[str, Tensor], lengths: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """features[m] [B, T_m, D_m], lengths[m] [B] on the CPU → encodings [B, T_m, 2H], zero at padded steps."""
        return {modality: self._encode(modality, x, lengths[modality]) for modality, x in features.items()}

    def encode_masked(self, modality: str, features: Tensor, real: Tensor | None) -> Tensor:
        """The same for one modality, with real [B, T] (None: every step is) in place of lengths that packing reads."""
        self._check(modality, features)
        lstm, prepare = self.lstms[modality], nn.Sequential(self.norms[modality], self.dropout)
        assert isinstance(lstm, nn.LSTM)
        if real is None:
            return self.dropout(run_lstm(lstm, prepare(features))[0])
        padded = ~real[..., None]  # [B, T, 1]
        encoded, _ = run_lstm(lstm, prepare(features.masked_fill(padded, 0.0)), real=real)
        return self.dropout(encoded.masked_fill(padded, 0.0))

    def _check(self, modality: str, features: Tensor) -> None:
        steps, width = features.shape[1:]
        if width != self.widths[modality]:
            raise UserError(f"{modality} features have width {width}, the model was made for {self.widths[modality]}")
        if steps > self.max_steps[modality]:
            raise UserError(
                f"{modality} features have {steps} steps, the model takes at most {self.max_steps[modality]}: "
                f"sample fewer, or train with a larger max_steps"
            )

    def _encode(self, modality: str, features: Tensor, length: Tensor) -> Tensor:
        self._check(modality, features)
        steps = features.shape[1]
        if features.is_cuda and torch.is_autocast_enabled("cuda"):
            full = bool((length == steps).all())
            return self.encode_masked(modality, features, None if full else step_mask(length, steps, features.device))
        lstm, prepare = self.lstms[modality], nn.Sequential(self.norms[modality], self.dropout)
        if bool((length == steps).all()):
            encoded, _ = lstm(prepare(features))  # [B, T, 2H]
            return self.dropout(encoded)
        real = step_mask(length, steps, features.device)[..., None]  # [B, T, 1]
        # A missing modality is run over one zero step, so that every row can be packed, and masked like padding.
        features = prepare(features.masked_fill(~real, 0.0))
        packed = pack_padded_sequence(features, length.clamp(min=1), batch_first=True, enforce_sorted=False)
        encoded, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=steps)
        return self.dropout(encoded.masked_fill(~real, 0.0))


def step_mask(length: Tensor, steps: int, device: torch.device) -> Tensor:
    """[B] → [B, T] bool, True = real."""
    return torch.arange(steps, device=device) < length.to(device, non_blocking=True)[:, None]
