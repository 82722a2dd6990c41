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
    fidelity: str  # how close to the source, in words; empty: it is its own
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
        found = entry(name)
        known = f"class {found.fidelity}{', in that style' * found.in_that_style}" if found.fidelity else ""
        rows.append(Row(name, found.about, found.source, known, count))
    return rows
