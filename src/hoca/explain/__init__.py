"""Show what a model looked at and how it learned."""

from hoca.explain.curves import curves_figure
from hoca.explain.figure import attention_figure

__all__ = ["attention_figure", "curves_figure"]
