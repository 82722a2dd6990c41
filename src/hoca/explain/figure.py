"""What each word looked at, as a figure: shares and choices as bars, moments as heat maps, what was found as a list,
and whatever else there is to see as matrices."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hoca.errors import UserError
from hoca.explain.drawing import new_figure, save
from hoca.explain.explanation import LABELS, ExplainedMatrix, MatrixAxis, Modality, ModelCaption
from hoca.media.clock import Spans

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

COLOURS = ("#c0392b", "#27ae60", "#2980b9", "#8e44ad", "#d35400")  # red, green, blue as in the paper, then others
HUES = {"image": 0, "motion": 1, "audio": 2, "change": 3}  # a modality has its colour whatever the clip lacks
OTHER = "#7f8c8d"  # of what is no modality
AS_WRITTEN: dict[str, Any] = {"parse_math": False}  # names and words are no formulas, whatever dollars they hold
Bars = list[tuple[str, tuple[float, ...], str]]  # name, value at each word, colour


def attention_figure(
    captions: ModelCaption | Sequence[ModelCaption],
    path: Path,
    title: str = "",
    truth: Sequence[tuple[Mapping[str, Spans], str]] = (),
) -> None:
    """What the model can tell, from the left: per word what it chose and how much each modality counts, β; for each
    modality which steps, α; matrices; and what was found in the whole video. Several captions: one below the other,
    those that tell something; α of a modality is as dark in one as in another.

    title: of a single caption, its words by default. truth: seconds of each modality that were to be looked at, or not,
    and the colour to frame them in.
    """
    several = (captions,) if isinstance(captions, ModelCaption) else tuple(captions)
    telling = [caption for caption in several if _columns(caption)]
    if not telling:
        models = " and the model ".join(caption.model for caption in several)
        raise UserError(f"the model {models} cannot tell what its words looked at: there is no figure to draw")
    tops = _tops(telling)
    sizes = [(3.4 + 2.1 * _columns(caption), 1.3 + 0.26 * max(4, len(caption.words))) for caption in telling]
    heights = [height for _, height in sizes]
    figure = new_figure(width=max(width for width, _ in sizes), height=sum(heights))
    parts = figure.subfigures(len(telling), 1, squeeze=False, height_ratios=heights)[:, 0]
    for caption, part in zip(telling, parts, strict=True):
        name = title if len(several) == 1 else f"{caption.model}: {' '.join(caption.words)}"
        _draw(part, caption, name or " ".join(caption.words), tops, truth)
    save(figure, path, dpi=150)


def _columns(caption: ModelCaption) -> int:
    return len(caption.modalities) + len(caption.choices) + len(caption.found) + len(caption.matrices)


def _tops(captions: Sequence[ModelCaption]) -> dict[str, float]:
    """The α that is drawn darkest, of each modality: the greatest, but at least three times the even share.

    So attention that is spread evenly looks even.
    """
    tops: dict[str, float] = {}
    for caption in captions:
        for modality in caption.modalities:
            for weights in modality.weights:
                tops[modality.name] = max(tops.get(modality.name, 0.0), 3 / len(weights), *weights)
    return tops


def _colours(modalities: Sequence[Modality]) -> dict[str, str]:
    places = {modality.name: place + 4 for place, modality in enumerate(modalities)} | HUES
    return {name: COLOURS[place % len(COLOURS)] for name, place in places.items()}


def _draw(
    figure: FigureBase,
    caption: ModelCaption,
    title: str,
    tops: Mapping[str, float],
    truth: Sequence[tuple[Mapping[str, Spans], str]],
) -> None:
    words, modalities, colours = caption.words, caption.modalities, _colours(caption.modalities)
    bars = _bars(caption, colours)
    of_words = {name: each for name, each in caption.matrices.items() if each.rows.kind == "words"}
    others = {name: each for name, each in caption.matrices.items() if each.rows.kind != "words"}
    by_word = len(bars) + len(modalities) + len(of_words)
    widths = [1.1] * len(bars) + [1.0] * (len(modalities) + len(caption.matrices) + len(caption.found))
    grid = figure.add_gridspec(1, len(widths), width_ratios=widths)
    axes: list[Axes] = []
    for place in range(by_word):
        axes.append(figure.add_subplot(grid[place], sharey=axes[0] if axes else None))
        axes[-1].tick_params(axis="x", labelsize=8)
        axes[-1].tick_params(axis="y", labelleft=place == 0)
    left = iter(axes)
    for name, rows in bars:
        _draw_bars(next(left), name, rows)
    for modality in modalities:
        axis = next(left)
        _draw_moments(axis, modality, colours[modality.name], tops)
        _draw_truth(axis, modality, truth)
    for name, matrix in of_words.items():
        _draw_matrix(next(left), name, matrix, colours)
    if axes:
        axes[0].set_yticks(range(len(words)), words, fontsize=9, **AS_WRITTEN)
        axes[0].set_ylim(max(len(words), 1) - 0.5, -0.5)
    for place, (name, matrix) in enumerate(others.items(), start=by_word):
        axis = figure.add_subplot(grid[place])
        _draw_matrix(axis, name, matrix, colours)
        axis.set_yticks(range(len(matrix.values)), _labels(matrix.rows), fontsize=9, **AS_WRITTEN)
    for place, (what, items) in enumerate(caption.found.items(), start=by_word + len(others)):
        _draw_found(figure.add_subplot(grid[place]), what, items)
    figure.suptitle("\n".join(textwrap.wrap(title, 30 + 20 * _columns(caption))), fontsize=11, **AS_WRITTEN)


def _bars(caption: ModelCaption, colours: dict[str, str]) -> list[tuple[str, Bars]]:
    """What is drawn as bars beside the words: title → rows."""
    found: list[tuple[str, Bars]] = [
        (f"choice of {what}", [(name, values, colours.get(name, OTHER)) for name, values in options.items()])
        for what, options in caption.choices.items()
    ]
    weighed = [(each.name, each.share, colours[each.name]) for each in caption.modalities if each.share]
    return [*found, ("share β", weighed)] if weighed else found


def _draw_bars(axis: Axes, title: str, rows: Bars) -> None:
    """The values of each word, one beside the other, each with its colour."""
    left = np.zeros(len(rows[0][1]))
    for name, values, colour in rows:
        axis.barh(range(len(left)), values, left=left, height=0.72, color=colour, label=name)
        left = left + values
    axis.set_xlim(0, 1)
    axis.set_title(title, fontsize=10, **AS_WRITTEN)
    axis.spines[["top", "right"]].set_visible(False)
    if title.startswith("share"):
        axis.set_xlabel("of each modality", fontsize=8)
    else:
        legend = axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=7, frameon=False)
        for text in legend.get_texts():
            text.set(**AS_WRITTEN)


def _draw_moments(axis: Axes, modality: Modality, colour: str, tops: Mapping[str, float]) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    label = LABELS.get(modality.name, modality.name)
    axis.set_title(label, fontsize=10, color=colour, fontweight="bold", **AS_WRITTEN)
    axis.tick_params(axis="y", length=0)
    if not modality.weights:
        axis.set_xticks([])
        return
    alpha = np.array(modality.weights)  # [L, T]
    shades = LinearSegmentedColormap.from_list(modality.name, ["white", colour])
    axis.imshow(alpha, aspect="auto", cmap=shades, vmin=0, vmax=tops[modality.name], interpolation="nearest")
    axis.set_xlabel(f"time step (α {alpha.min():.3f} to {alpha.max():.3f})", fontsize=8)
    axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))


def _draw_matrix(axis: Axes, name: str, matrix: ExplainedMatrix, colours: dict[str, str]) -> None:
    """Numbers below zero, if there are any, go to black as those above go to the colour."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    values = np.array(matrix.values)
    colour = colours.get(matrix.columns.modality, OTHER)
    axis.set_title("\n".join(textwrap.wrap(name, 24)), fontsize=10, color=colour, **AS_WRITTEN)
    axis.tick_params(axis="y", length=0)
    if not values.size:
        axis.set_xticks([])
        return
    most = float(np.abs(values).max()) or 1.0
    ends = ["black", "white", colour] if values.min() < 0 else ["white", colour]
    shades = LinearSegmentedColormap.from_list(name, ends)
    least = -most if values.min() < 0 else 0.0
    axis.imshow(values, aspect="auto", cmap=shades, vmin=least, vmax=most, interpolation="nearest")
    if matrix.columns.kind == "time":
        axis.set_xlabel(f"time step ({values.min():.3f} to {values.max():.3f})", fontsize=8)
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    else:
        axis.set_xticks(range(values.shape[1]), _labels(matrix.columns), fontsize=7, rotation=90, **AS_WRITTEN)
        axis.set_xlabel(f"{values.min():.3f} to {values.max():.3f}", fontsize=8)


def _labels(axis: MatrixAxis) -> Sequence[str]:
    return axis.labels or [f"{start:.1f} s" for start, _ in axis.spans]


def _draw_truth(axis: Axes, modality: Modality, truth: Sequence[tuple[Mapping[str, Spans], str]]) -> None:
    edges = [start for start, _ in modality.spans] + [modality.spans[-1][1]]
    for moments, frame in truth:
        for span in moments.get(modality.name, ()):
            left, right = np.interp(span, edges, np.arange(len(edges))) - 0.5
            axis.axvspan(left, right, fill=False, edgecolor=frame, linewidth=1.8, zorder=3)


def _draw_found(axis: Axes, what: str, items: tuple[tuple[str, float], ...]) -> None:
    axis.barh(range(len(items)), [p for _, p in items], height=0.72, color=OTHER)
    axis.set_yticks(range(len(items)), [name for name, _ in items], fontsize=9, **AS_WRITTEN)
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.set_title(f"{what} found in the video", fontsize=10, **AS_WRITTEN)
    axis.set_xlabel("probability", fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
