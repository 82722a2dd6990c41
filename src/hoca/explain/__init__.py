"""Show what a model looked at and how it learned."""

from hoca.explain.curves import curves_figure
from hoca.explain.explanation import (
    ExplainedVideo,
    GroupWeights,
    Modality,
    ModelCaption,
    collect,
    explain,
    model_caption,
    model_name,
)
from hoca.explain.figure import attention_figure
from hoca.explain.report import report, write_report
from hoca.explain.studies import cost_figure, rank_figure

__all__ = [
    "ExplainedVideo",
    "GroupWeights",
    "Modality",
    "ModelCaption",
    "attention_figure",
    "collect",
    "cost_figure",
    "curves_figure",
    "explain",
    "model_caption",
    "model_name",
    "rank_figure",
    "report",
    "write_report",
]
