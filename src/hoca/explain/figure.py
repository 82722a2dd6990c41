"""What each word looked at, as a figure: the share of each modality, and its moments as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hoca.files import replacing
from hoca.models import Attention

COLOURS = ("#c0392b", "#27ae60", "#2980b9", "#8e44ad", "#d35400")  # red, green, blue as in the paper, then others


def attention_figure(words: Sequence[str], attention: Attention, path: Path, title: str = "") -> None:
    """Bars: β of each modality for every word. Below, per modality: α over its time steps, a row per word."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    modalities = list(attention.modalities)
    figure = Figure(figsize=(max(7.0, 2.6 * len(modalities)), 2.6 + 0.28 * len(words)), layout="constrained")
    FigureCanvasAgg(figure)
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.4, 1 + 0.28 * len(words)))[:, 0]
    bars = top.subplots()
    width = 0.8 / len(modalities)
    for place, (modality, colour) in enumerate(zip(modalities, _cycle(COLOURS, len(modalities)), strict=True)):
        offsets = [number + (place - (len(modalities) - 1) / 2) * width for number in range(len(words))]
        bars.bar(offsets, attention.modalities[modality].tolist(), width, color=colour, label=modality)
    bars.set_xticks(range(len(words)), words)
    bars.set_ylabel("β")
    bars.set_title(title or " ".join(words), fontsize=10)
    bars.legend(frameon=False, ncols=len(modalities), fontsize=8)
    bars.spines[["top", "right"]].set_visible(False)
    maps = bottom.subplots(1, len(modalities), sharey=True, squeeze=False)[0]
    for axis, modality in zip(maps, modalities, strict=True):
        axis.imshow(attention.merged[modality].float().numpy(), aspect="auto", cmap="magma", vmin=0)
        axis.set_title(f"α {modality}", fontsize=9)
        axis.set_xlabel("time step", fontsize=8)
        axis.set_yticks(range(len(words)), words, fontsize=8)
        axis.tick_params(labelsize=8)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip(".") or "png", dpi=150)


def _cycle(values: Sequence[str], count: int) -> list[str]:
    return [values[number % len(values)] for number in range(count)]
