"""The report of a caption where a notebook shows it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from hoca.errors import UserError
from hoca.explain.explanation import collect
from hoca.explain.report import report

if TYPE_CHECKING:
    from hoca.captioning import Caption

HEIGHT = 640  # pixels; the report scrolls within them


def in_notebook(caption: Caption) -> str | None:
    """The report in a frame of its own, whose script reaches nothing of the notebook; None where the file is gone."""
    if caption.video is None or caption.made_by is None:
        return None
    try:
        page = report(collect(caption.video, [(caption.made_by.model.name, caption.made_by, caption)]))
    except UserError:
        return None
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="{html.escape(caption.text)}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
    )
