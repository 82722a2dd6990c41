"""Tiny models of transformers with random weights, saved to disk as a user's would be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="needs the extra [hf]")
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PICTURE = {"image_size": 32, "patch_size": 8}
LOOK = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.2]}


def save(folder: Path, model: torch.nn.Module, preparation: object) -> str:
    model.save_pretrained(folder)  # type: ignore[operator]
    if isinstance(preparation, dict):
        (folder / "preprocessor_config.json").write_text(json.dumps(preparation))
    else:
        preparation.save_pretrained(folder)  # type: ignore[attr-defined]
    return f"hf:{folder}"


def image(folder: Path) -> str:
    return save(folder, transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, **PICTURE)), LOOK)


def video(folder: Path) -> str:
    config = transformers.VideoMAEConfig(**SMALL, **PICTURE, num_frames=4, tubelet_size=2)
    return save(folder, transformers.VideoMAEModel(config), LOOK)


def spectrogram(folder: Path) -> str:
    bands = {"num_mel_bins": 32, "max_length": 1024}
    config = transformers.ASTConfig(**SMALL, patch_size=8, **bands)
    return save(folder, transformers.ASTModel(config), transformers.ASTFeatureExtractor(**bands))


def waveform(folder: Path) -> str:
    config = transformers.Wav2Vec2Config(
        **SMALL, conv_dim=[8, 8], conv_stride=[10, 8], conv_kernel=[10, 8], num_feat_extract_layers=2,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    return save(folder, transformers.Wav2Vec2Model(config), transformers.Wav2Vec2FeatureExtractor(feature_size=1))
