"""Models of transformers as plain modules: uint8 pictures or sound in, one vector a step out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoFeatureExtractor, AutoModel

from hoca.errors import UserError

IMAGENET = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}
LONGEST = 10.0  # seconds around a step that a model of spectrograms hears


def _load(folder: Path, part: str) -> nn.Module:
    """The model itself, from safetensors only and without code of the folder; of a pair, the part that is wanted."""
    try:
        model = AutoModel.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
        )
    except Exception as error:  # a configuration that does not fit its weights fails in any way it likes
        reason = str(error).strip().split("\n", 1)[0]
        raise UserError(f"hf:{folder} cannot be loaded: {reason}") from None
    return getattr(model, part, model)


def _pooled(output: Any) -> Tensor:
    """One vector for each input: the model's own summary, or the mean over places."""
    summary = getattr(output, "pooler_output", None)
    if summary is not None:
        return summary.flatten(1).float()
    hidden = output.last_hidden_state.float()
    return hidden.mean((2, 3)) if hidden.ndim == 4 else hidden.mean(1)  # [S, C, h, w] or [S, tokens, C]


class Seeing(nn.Module):
    """Pictures uint8 [S, side, side, 3], or snippets [S, frames, side, side, 3] → [S, width]."""

    def __init__(self, folder: Path, preparation: dict[str, Any]) -> None:
        super().__init__()
        self.model = _load(folder, "vision_model")
        values = {key: preparation.get(key) or default for key, default in IMAGENET.items()}
        self.mean, self.std = (torch.tensor(values[key]) for key in IMAGENET)

    def forward(self, pictures: Tensor) -> Tensor:
        x = (pictures.float() / 255 - self.mean.to(pictures.device)) / self.std.to(pictures.device)
        x = x.movedim(-1, -3).to(next(self.model.parameters()).dtype)  # [S, (frames,) 3, side, side]
        return _pooled(self.model(pixel_values=x))


class Hearing(nn.Module):
    """Sound [B, samples] → [B, seconds, width]: each second by itself, or with what is around it."""

    def __init__(self, folder: Path, preparation: dict[str, Any]) -> None:
        super().__init__()
        model: Any = _load(folder, "audio_model")
        self.model: nn.Module = (
            model.get_encoder() if hasattr(model, "decoder") else model
        )  # of a speech recogniser, its ear
        try:
            self.extractor = AutoFeatureExtractor.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, ImportError) as error:
            raise UserError(
                f"hf:{folder}: its feature extractor cannot be loaded ({error})".replace("\n", " ")
            ) from None
        self.rate = int(preparation["sampling_rate"])
        self.raw = preparation.get("feature_size") == 1 and "num_mel_bins" not in preparation

    def forward(self, waveform: Tensor) -> Tensor:
        sounds = waveform.cpu().numpy()
        seconds = max(1, round(sounds.shape[1] / self.rate))
        reach = 0 if self.raw else round((LONGEST - 1) / 2 * self.rate)
        padded = np.pad(sounds, ((0, 0), (reach, reach + self.rate)))
        size = self.rate + 2 * reach
        pieces = [[sound[at * self.rate :][:size] for at in range(seconds)] for sound in padded]
        made = [self._heard(each, waveform.device) for each in pieces]
        return torch.stack(made)  # [B, seconds, width]

    def _heard(self, pieces: list[np.ndarray], device: torch.device) -> Tensor:
        prepared = self.extractor(pieces, sampling_rate=self.rate, return_tensors="pt")
        name = next(key for key in ("input_values", "input_features") if key in prepared)
        x = prepared[name].to(device, next(self.model.parameters()).dtype)
        return _pooled(self.model(**{name: x}))
