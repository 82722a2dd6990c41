"""What each word looked at, as a figure: the share of each modality, and its moments as a heat map."""

from __future__ import annotations

import textwrap
from itertools import cycle
from pathlib import Path

import numpy as np

from hoca.explain.drawing import save, surface
from hoca.explain.explanation import Reading

COLOURS = ("#c0392b", "#27ae60", "#2980b9", "#8e44ad", "#d35400")  # red, green, blue as in the paper, then others


def attention_figure(reading: Reading, path: Path, title: str = "") -> None:
    """A row per word. Left: how much each modality counts, β. Then, per modality: which time steps, α."""
    from matplotlib.colors import LinearSegmentedColormap

    words, modalities = reading.words, list(zip(reading.modalities, cycle(COLOURS), strict=False))
    figure = surface(width=3.4 + 2.1 * len(modalities), height=1.3 + 0.26 * max(4, len(words)))
    shares, *maps = figure.subplots(1, 1 + len(modalities), sharey=True, width_ratios=[1.1] + [1.0] * len(modalities))
    left = [0.0] * len(words)
    for axis, (modality, colour) in zip(maps, modalities, strict=True):
        beta = modality.share
        shares.barh(range(len(words)), beta, left=left, height=0.72, color=colour)
        left = [start + more for start, more in zip(left, beta, strict=True)]
        alpha = np.array(modality.weights)  # [L, T]
        shades = LinearSegmentedColormap.from_list(modality.name, ["white", colour, "black"])
        least, most = float(alpha.min()), float(alpha.max())
        spread = max(most - least, 0.5 / alpha.shape[1])  # attention that is nearly even should look even
        darkest = least + 1.35 * spread  # a black cell would lose its colour
        axis.imshow(alpha, aspect="auto", cmap=shades, vmin=least, vmax=darkest, interpolation="nearest")
        axis.set_title(modality.name, fontsize=10, color=colour, fontweight="bold")
        axis.set_xlabel(f"time step (α {least:.3f} to {most:.3f})", fontsize=8)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.tick_params(axis="y", length=0)
    shares.set_yticks(range(len(words)), words, fontsize=9)
    shares.set_ylim(len(words) - 0.5, -0.5)
    shares.set_xlim(0, 1)
    shares.set_title("share β", fontsize=10)
    shares.set_xlabel("of each modality", fontsize=8)
    shares.spines[["top", "right"]].set_visible(False)
    for axis in (shares, *maps):
        axis.tick_params(axis="x", labelsize=8)
    figure.suptitle("\n".join(textwrap.wrap(title or " ".join(words), 30 + 20 * len(modalities))), fontsize=11)
    save(figure, path, dpi=150)
