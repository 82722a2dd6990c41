"""Show what a model looked at and how it learned."""

from hoca.explain.curves import curves_figure
from hoca.explain.explanation import (
    ExplainedMatrix,
    ExplainedVideo,
    GroupWeights,
    MatrixAxis,
    Modality,
    ModelCaption,
    collect,
    explain,
    model_caption,
    model_name,
)
from hoca.explain.figure import attention_figure
from hoca.explain.film import FilmSegment, film_report, film_segments, segment_content
from hoca.explain.notebook import in_notebook
from hoca.explain.report import report, write_report
from hoca.explain.studies import cost_figure, rank_figure

__all__ = [
    "ExplainedMatrix",
    "ExplainedVideo",
    "FilmSegment",
    "GroupWeights",
    "MatrixAxis",
    "Modality",
    "ModelCaption",
    "attention_figure",
    "collect",
    "cost_figure",
    "curves_figure",
    "explain",
    "film_report",
    "film_segments",
    "in_notebook",
    "model_caption",
    "model_name",
    "rank_figure",
    "report",
    "segment_content",
    "write_report",
]
