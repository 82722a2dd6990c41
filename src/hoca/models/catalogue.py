"""The registered captioners as a table."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hoca.models.registry import create, entry, names
from hoca.text import Vocabulary

PAPER_WIDTHS = {"image": 1536, "motion": 1024, "audio": 128}  # Inception-ResNet-v2, I3D, VGGish
PAPER_VOCABULARY = 10547  # words of MSR-VTT


@dataclass(frozen=True)
class Row:
    name: str
    about: str
    source: str
    parameters: int  # with the paper's features and the words of MSR-VTT


def catalogue(pattern: str = "*") -> list[Row]:
    """A row for each registered name that matches a shell pattern."""
    special = len(Vocabulary([]))
    words = Vocabulary([f"w{number}" for number in range(PAPER_VOCABULARY - special)])
    rows = []
    for name in names(pattern):
        with torch.device("meta"):  # shapes without memory
            model = create(name, PAPER_WIDTHS, words)
        count = sum(parameter.numel() for parameter in model.parameters())
        rows.append(Row(name, entry(name).about, entry(name).source, count))
    return rows
