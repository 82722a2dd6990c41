"""What each word looked at, as a figure: the share of each modality, and its moments as a heat map."""

from __future__ import annotations

import textwrap
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hoca.errors import UserError
from hoca.explain.drawing import new_figure, save
from hoca.explain.explanation import ModelCaption

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#c0392b", "#27ae60", "#2980b9", "#8e44ad", "#d35400")  # red, green, blue as in the paper, then others


def attention_figure(caption: ModelCaption, path: Path, title: str = "") -> None:
    """A row per word. Left: how much each modality counts, β, where the model tells. Then, for each: which steps, α."""
    from matplotlib.colors import LinearSegmentedColormap

    words, modalities = caption.words, list(zip(caption.modalities, cycle(COLOURS), strict=False))
    if not modalities:
        raise UserError(f"the model {caption.model} cannot tell what its words looked at: there is no figure to draw")
    weighed = [(modality.share, colour) for modality, colour in modalities if modality.share]
    figure = new_figure(width=3.4 + 2.1 * len(modalities), height=1.3 + 0.26 * max(4, len(words)))
    widths = [1.1] * bool(weighed) + [1.0] * len(modalities)
    axes = list(figure.subplots(1, len(widths), sharey=True, squeeze=False, width_ratios=widths)[0])
    for axis, (modality, colour) in zip(axes[-len(modalities) :], modalities, strict=True):
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
    if weighed:
        _draw_shares(axes[0], weighed)
    axes[0].set_yticks(range(len(words)), words, fontsize=9)
    axes[0].set_ylim(len(words) - 0.5, -0.5)
    for axis in axes:
        axis.tick_params(axis="x", labelsize=8)
    figure.suptitle("\n".join(textwrap.wrap(title or " ".join(words), 30 + 20 * len(modalities))), fontsize=11)
    save(figure, path, dpi=150)


def _draw_shares(axis: Axes, weighed: list[tuple[tuple[float, ...], str]]) -> None:
    """The shares of each word, one beside the other, each with the colour of its modality."""
    left = np.zeros(len(weighed[0][0]))
    for share, colour in weighed:
        axis.barh(range(len(left)), share, left=left, height=0.72, color=colour)
        left = left + share
    axis.set_xlim(0, 1)
    axis.set_title("share β", fontsize=10)
    axis.set_xlabel("of each modality", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
