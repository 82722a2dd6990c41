"""Captioners and batches small enough to compute by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hoca.models import Captioner, create, names
from hoca.text import Vocabulary

PAPER = names("*hoca-*")  # the paper's nine
WIDTHS = {"image": 5, "motion": 4, "audio": 3}
STEPS = {"image": 4, "motion": 3, "audio": 5}
VOCABULARY = Vocabulary(["a", "man", "dog", "sings", "runs", "red", "loudly"])
SIZES = {"hidden": 8, "attention": 6, "embedding": 7, "max_steps": 6, "dropout": 0.0}

Lengths = dict[str, Tensor]
Features = dict[str, Tensor]


def captioner(name: str = "l-hoca-ubt", modalities: Mapping[str, int] = WIDTHS, **options: Any) -> Captioner:
    """In float64, every parameter (θ too) away from where it starts, so that no term is hidden by another."""
    model = create(name, modalities, VOCABULARY, **SIZES | options).double().eval()
    assert isinstance(model, Captioner)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model


def videos(count: int = 3, modalities: Mapping[str, int] = WIDTHS) -> Features:
    return {m: torch.randn(count, STEPS.get(m, 4), width).double() for m, width in modalities.items()}


def captions(count: int = 3, rows: int = 2, words: int = 4) -> Tensor:
    """[B, R, L], <bos> first, any words after it."""
    ids = torch.randint(len(VOCABULARY), (count, rows, words))
    ids[:, :, 0] = VOCABULARY.bos
    return ids


def lengths(**values: list[int]) -> Lengths:
    return {modality: torch.tensor(value) for modality, value in values.items()}


RAGGED = lengths(image=[4, 1, 3], motion=[2, 3, 1], audio=[1, 5, 2])
HOLES = lengths(image=[0, 2, 4], motion=[2, 0, 3], audio=[5, 3, 0])  # each video lacks another one


def alone(features: Features, given: Lengths, video: int) -> tuple[Features, Lengths]:
    """One video of a batch without any padding; what it lacks is left out."""
    kept = {m: int(given[m][video]) for m in features if int(given[m][video]) > 0}
    return {m: features[m][video : video + 1, :length] for m, length in kept.items()}, {}
