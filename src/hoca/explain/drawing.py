"""Figures without a display and without matplotlib's global state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hoca.errors import UserError
from hoca.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path, dpi: int) -> None:
    check_format(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=dpi)


def check_format(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"the figure {path} must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
